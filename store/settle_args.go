package store

import (
	"time"

	"github.com/coppicehq/coppice/tree"
)

func fenceArgs(endings []Ending) (ids, seqs []int64) {
	ids, seqs = make([]int64, len(endings)), make([]int64, len(endings))
	for i, e := range endings {
		ids[i], seqs[i] = int64(e.ID), e.Seq
	}
	return ids, seqs
}

// column collects one property of a batch as an array parameter.
func column[T any](endings []Ending, f func(*Ending) T) []T {
	out := make([]T, len(endings))
	for i := range endings {
		out[i] = f(&endings[i])
	}
	return out
}

// microsUp rounds up to what a timestamp can hold: a delay that was asked for is never cut short.
func microsUp(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// orNull turns the empty string into SQL's NULL.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func completeArgs(worker tree.WorkerID, endings []Ending) []any {
	ids, seqs := fenceArgs(endings)
	return []any{
		ids, seqs, int64(worker),
		column(endings, func(e *Ending) string {
			if e.End == EndCancelled {
				return string(tree.Cancelled)
			}
			return string(tree.Completed)
		}),
		column(endings, func(e *Ending) *string { return orNull(string(e.Result)) }),
		column(endings, func(e *Ending) *string { return orNull(e.Error) }),
		column(endings, func(e *Ending) bool { return e.Keep }),
	}
}

func deadLetterArgs(worker tree.WorkerID, endings []Ending) []any {
	ids, seqs := fenceArgs(endings)
	return []any{
		ids, seqs, int64(worker),
		column(endings, func(e *Ending) string { return string(e.Reason) }),
		column(endings, func(e *Ending) string { return string(e.Outcome) }),
		column(endings, func(e *Ending) string { return e.Error }),
		column(endings, func(e *Ending) *string { return orNull(e.Stack) }),
		column(endings, func(e *Ending) *string { return orNull(e.Fingerprint) }),
	}
}

func rescheduleArgs(worker tree.WorkerID, endings []Ending) []any {
	ids, seqs := fenceArgs(endings)
	one := func(yes bool) int32 {
		if yes {
			return 1
		}
		return 0
	}
	return []any{
		ids, seqs, int64(worker),
		column(endings, func(e *Ending) *int64 {
			if e.End == EndReleased {
				return nil
			}
			us := microsUp(e.Delay)
			return &us
		}),
		column(endings, func(e *Ending) int32 { return one(e.End != EndRetry) }),
		column(endings, func(e *Ending) int32 { return one(e.End == EndSnoozed) }),
		column(endings, func(e *Ending) *string { return orNull(string(e.Outcome)) }),
		column(endings, func(e *Ending) *string {
			if e.Outcome == "" {
				return nil
			}
			return &e.Error
		}),
		column(endings, func(e *Ending) *string { return orNull(e.Stack) }),
	}
}

func stopArgs(worker tree.WorkerID, endings []Ending) []any {
	ids, seqs := fenceArgs(endings)
	return []any{
		ids, seqs, int64(worker),
		column(endings, func(e *Ending) *string { return orNull(string(e.Outcome)) }),
		column(endings, func(e *Ending) string { return e.Error }),
		column(endings, func(e *Ending) *string { return orNull(e.Stack) }),
	}
}
