// Package testcheck ends database tests with the invariant check.
//
// What does not live here: the check itself, which is store's and runs in production too.
package testcheck

import (
	"context"
	"testing"
	"time"

	"github.com/coppicehq/coppice/store"
)

// limit bounds one check, so that a database that hangs fails the test that made it hang.
const limit = time.Minute

// AssertInvariants fails the test for every invariant that the store's schema breaks, with the rows that
// break it. It may run while workers do, and in t.Cleanup, where t.Context has ended.
func AssertInvariants(t testing.TB, s *store.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	report, err := s.Check(ctx, store.CheckOptions{Rows: 20, History: true})
	if err != nil {
		t.Errorf("the invariants could not be checked: %v", err)
		return
	}
	if !report.OK() {
		t.Errorf("schema %s: %s", s.Schema(), report)
	}
}
