package store

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/coppicehq/coppice/tree"
)

// places lists the places of a plan's specs, in order.
func places(plan *tree.Plan) []int {
	all := make([]int, len(plan.Specs))
	for i := range all {
		all[i] = i
	}
	return all
}

// graft says where the roots of a fan-out's plan go: under a job that exists.
type graft struct {
	parent int64
	root   int64 // of the parent's tree
	round  int32 // of the parent, that the children are made for
	held   bool  // what is added is held like the parent
}

// specArgs turns the specs at some places of the plan into the array parameters of insertText. Without ids,
// parents and roots are places in the plan, from 1; with ids, one for every spec of the plan, they are
// ids. A fan-out has ids and a graft.
func specArgs(plan *tree.Plan, at []int, ids []int64, on *graft) []any {
	id := make([]*int64, len(at))
	parent, root := make([]*int64, len(at)), make([]int64, len(at))
	round := make([]*int32, len(at))
	for n, i := range at {
		s := &plan.Specs[i]
		if ids == nil {
			root[n] = int64(s.Root + 1)
			if s.Parent >= 0 {
				place := int64(s.Parent + 1)
				parent[n] = &place
			}
			continue
		}
		id[n], root[n] = &ids[i], ids[s.Root]
		if s.Parent >= 0 {
			parent[n] = &ids[s.Parent]
		}
		if on != nil {
			root[n] = on.root
			if s.Parent < 0 {
				parent[n], round[n] = &on.parent, &on.round
			}
		}
	}
	return []any{
		each(plan, at, func(s *tree.Spec) int32 { return int32(s.Children) }),
		each(plan, at, func(s *tree.Spec) bool { return s.Finalizes }),
		each(plan, at, func(s *tree.Spec) string { return s.Kind }),
		each(plan, at, func(s *tree.Spec) string { return string(s.Args) }),
		each(plan, at, func(s *tree.Spec) string { return s.Queue }),
		each(plan, at, func(s *tree.Spec) int32 { return int32(s.Priority) }),
		each(plan, at, func(s *tree.Spec) *int64 { return orNullMillis(s.Delay) }),
		each(plan, at, dueAt),
		each(plan, at, func(s *tree.Spec) int32 { return int32(s.MaxAttempts) }),
		each(plan, at, func(s *tree.Spec) *int64 { return orNullMillis(s.Timeout) }),
		each(plan, at, func(s *tree.Spec) *int64 { return orNullMillis(s.MaxAge) }),
		each(plan, at, func(s *tree.Spec) *int64 {
			return ofBackoff(s, func(b *tree.Backoff) int64 { return millisUp(b.Base) })
		}),
		each(plan, at, func(s *tree.Spec) *int64 {
			return ofBackoff(s, func(b *tree.Backoff) int64 { return millisUp(b.Cap) })
		}),
		each(plan, at, func(s *tree.Spec) *float32 {
			return ofBackoff(s, func(b *tree.Backoff) float32 { return float32(b.Factor) })
		}),
		each(plan, at, func(s *tree.Spec) *float32 {
			return ofBackoff(s, func(b *tree.Backoff) float32 { return float32(b.Jitter) })
		}),
		each(plan, at, func(s *tree.Spec) *string { return orNull(s.DedupKey) }),
		each(plan, at, func(s *tree.Spec) *string { return orNull(s.ChildKey) }),
		each(plan, at, func(s *tree.Spec) *string { return arrayLiteral(s.Tags) }),
		each(plan, at, func(s *tree.Spec) *string { return metaJSON(s.Meta) }),
		each(plan, at, keepFor),
		each(plan, at, func(s *tree.Spec) string { return string(s.OnDead) }),
		each(plan, at, func(s *tree.Spec) string { return string(s.OnLost) }),
		id, parent, root, round,
		each(plan, at, func(s *tree.Spec) int32 { return int32(s.Tolerate) }),
		each(plan, at, func(s *tree.Spec) float32 { return float32(s.TolerateRatio) }),
		each(plan, at, func(s *tree.Spec) *string { return orNull(s.GroupKey) }),
		each(plan, at, func(s *tree.Spec) *string { return orNull(s.LimitKey) }),
		each(plan, at, func(s *tree.Spec) *int64 { return orNullMillis(s.Deadline) }),
		each(plan, at, func(s *tree.Spec) *int64 { return orNullMillis(s.SealBy) }),
		on != nil && on.held,
	}
}

func each[T any](plan *tree.Plan, at []int, f func(*tree.Spec) T) []T {
	out := make([]T, len(at))
	for n, i := range at {
		out[n] = f(&plan.Specs[i])
	}
	return out
}

func ofBackoff[T any](s *tree.Spec, f func(*tree.Backoff) T) *T {
	if s.Backoff == nil {
		return nil
	}
	v := f(s.Backoff)
	return &v
}

// orNullMillis keeps zero as NULL ("not said") and any negative duration as -1 ("none").
func orNullMillis(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	ms := int64(-1)
	if d > 0 {
		ms = millisUp(d)
	}
	return &ms
}

// millisUp rounds up: a wait that was asked for is never cut to nothing.
func millisUp(d time.Duration) int64 {
	ms := d / time.Millisecond
	if d%time.Millisecond > 0 {
		ms++
	}
	return int64(ms)
}

func keepFor(s *tree.Spec) *int64 {
	if s.KeepFor == nil {
		return nil
	}
	ms := millisUp(*s.KeepFor)
	return &ms
}

func dueAt(s *tree.Spec) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: s.DueAt, Valid: !s.DueAt.IsZero()} // cut to microseconds on its way
}

// arrayLiteral writes words as a PostgreSQL array, for a parameter that is itself an element of one.
func arrayLiteral(words []string) *string {
	if len(words) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, w := range words {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		for j := range len(w) {
			if w[j] == '"' || w[j] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(w[j])
		}
		b.WriteByte('"')
	}
	b.WriteByte('}')
	s := b.String()
	return &s
}

func metaJSON(meta map[string]string) *string {
	if len(meta) == 0 {
		return nil
	}
	raw, err := json.Marshal(meta)
	if err != nil { // a map of strings always encodes
		return nil
	}
	s := string(raw)
	return &s
}

// idArray scans a bigint[] whichever way the driver hands it over: pgx as numbers, database/sql as text.
type idArray struct{ into *[]int64 }

// SetDimensions makes room. It and the next two are pgtype's way to fill a Go slice from an array.
func (a idArray) SetDimensions(dims []pgtype.ArrayDimension) error {
	n := 0
	for _, d := range dims {
		n = int(d.Length)
	}
	*a.into = make([]int64, n)
	return nil
}

// ScanIndex returns where element i goes.
func (a idArray) ScanIndex(i int) any { return &(*a.into)[i] }

// ScanIndexType returns what an element is.
func (a idArray) ScanIndexType() any { return new(int64) }

// Scan reads the array's text, for database/sql.
func (a idArray) Scan(src any) error {
	var text string
	switch v := src.(type) {
	case string:
		text = v
	case []byte:
		text = string(v)
	default:
		return fmt.Errorf("an array came as %T", src)
	}
	text = strings.Trim(text, "{}")
	*a.into = (*a.into)[:0]
	if text == "" {
		return nil
	}
	for _, word := range strings.Split(text, ",") {
		id, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return err
		}
		*a.into = append(*a.into, id)
	}
	return nil
}
