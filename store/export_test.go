package store

// StatementName names a statement of the hot path by its text; "" is none of them.
func StatementName(s *Store, sql string) string {
	return map[string]string{
		s.claimSQL: "claim", s.carefulSQL: "careful", s.unparkSQL: "unpark", s.admitSQL: "admit", s.leftSQL: "left", s.marksSQL: "mark", s.promoteSQL: "promote", s.nextDueSQL: "next due", s.lockSQL: "lock",
		s.lockDeadSQL: "lock dead", s.completeSQL: "complete", s.completeTreeSQL: "complete in trees", s.deadLetterSQL: "dead letter",
		s.rescheduleSQL: "reschedule", s.insertOnceSQL: "insert at once", s.sql(resultsSQL): "results",
		s.sql(deadChildrenSQL): "dead children", s.sql(childrenThereSQL): "children there",
	}[sql]
}
