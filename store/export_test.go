package store

import "strings"

// StatementName names a statement of the hot path by its text; "" is none of them.
func StatementName(s *Store, sql string) string {
	name, ok := map[string]string{
		s.claimSQL: "claim", s.promoteSQL: "promote", s.nextDueSQL: "next due", s.lockSQL: "lock",
		s.lockDeadSQL: "lock dead", s.completeSQL: "complete", s.completeTree: "complete in trees", s.burySQL: "bury",
		s.rescheduleSQL: "reschedule", s.sql(insertOnceSQL): "insert at once", s.sql(insertKnownSQL): "insert known",
		s.sql(insertKeyedSQL): "insert keyed",
	}[sql]
	switch {
	case ok:
		return name
	case strings.Contains(sql, s.quoted+".results"):
		return "results"
	case strings.Contains(sql, s.quoted+".dead_jobs") && strings.HasPrefix(strings.TrimSpace(sql), "SELECT"):
		return "dead children"
	}
	return ""
}
