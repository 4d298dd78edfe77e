package tree

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// fieldError is a problem with one field, before the plan adds the node's path.
type fieldError struct{ field, problem string }

func (e fieldError) Error() string { return e.field + ": " + e.problem }

func wrong(field, format string, a ...any) error {
	return fieldError{field, fmt.Sprintf(format, a...)}
}

// fill applies the node's options to s, encodes its args and checks everything.
func (n *Node) fill(s *Spec) error {
	if n.args == nil {
		return wrong("args", "are nil")
	}
	kind, err := KindOf(n.args) // first, for every other refusal names it
	if err != nil {
		return wrong("kind", "%v", err)
	}
	s.Queue, s.MaxAttempts = DefaultQueue, DefaultMaxAttempts
	s.OnDead, s.OnLost, s.OnDuplicate = Wait, LostRetry, Ignore
	place := *s
	for _, option := range n.options {
		if option == nil {
			s.Kind = kind
			return wrong("options", "one is nil")
		}
		option(s)
	}
	s.Parent, s.Root, s.ordinal = place.Parent, place.Root, place.ordinal // the plan's, whatever an option wrote
	s.Kind, s.Children, s.Finalizes = kind, len(n.children), n.finalizes || s.SealBy > 0
	if err := n.fillArgs(s); err != nil {
		return err
	}
	return s.check()
}

func (n *Node) fillArgs(s *Spec) error {
	raw, err := encode(n.args)
	if err != nil {
		return wrong("args", "do not encode as JSON: %s", CleanText(err.Error(), 500))
	}
	s.Args = raw
	if err := CheckJSON(raw, MaxArgsBytes); err != nil {
		return wrong("args", "%v", err)
	}
	if err := CheckStrings(n.args, raw); err != nil {
		return wrong("args", "%v", err)
	}
	return nil
}

// encode is json.Marshal, with a panic of one of v's own encoders as an error.
func encode(v any) (raw []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the encoder of %T panicked: %v", v, p)
		}
	}()
	return json.Marshal(v)
}

// KindOf calls args.Kind, turning a nil or a panic into an error that says what to do, and checks the
// kind that it gives.
func KindOf(args Args) (kind string, err error) {
	if args == nil {
		return "", fmt.Errorf("args are nil")
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%T.Kind panicked: %s; Kind must work on the zero value", args, CleanText(fmt.Sprint(p), 200))
		}
	}()
	kind = args.Kind()
	return kind, CheckKind(kind)
}

// CheckKind reports what is wrong with a kind, or nil.
func CheckKind(kind string) error { return checkName(kind, MaxKindBytes) }

// CheckQueue reports what is wrong with a queue's name, or nil.
func CheckQueue(name string) error { return checkName(name, MaxQueueBytes) }

// CheckKey reports what is wrong with a dedup key, a child's key, a group or a limit's key, or nil.
func CheckKey(key string) error { return checkName(key, MaxKeyBytes) }

func (s *Spec) check() error {
	if err := CheckQueue(s.Queue); err != nil {
		return wrong("queue", "%v", err)
	}
	if s.Priority < MinPriority || s.Priority > MaxPriority {
		return wrong("priority", "%d is outside %d to %d", s.Priority, MinPriority, MaxPriority)
	}
	if s.MaxAttempts < 1 || s.MaxAttempts > MaxAttemptLimit {
		return wrong("max attempts", "%d is outside 1 to %d", s.MaxAttempts, MaxAttemptLimit)
	}
	if err := s.checkTimes(); err != nil {
		return err
	}
	if !s.OnDead.valid() {
		return wrong("on dead", "%q is no dead-child policy; there are %q, %q and %q", Clip(string(s.OnDead), 40), Wait, Proceed, Fail)
	}
	if s.Tolerate < 0 || s.Tolerate > MaxNodes {
		return wrong("tolerate", "%d is outside 0 to %d", s.Tolerate, MaxNodes)
	}
	if !(s.TolerateRatio >= 0 && s.TolerateRatio <= 1) { // written so that NaN fails
		return wrong("tolerate ratio", "%v is outside 0 to 1", s.TolerateRatio)
	}
	if !s.OnDuplicate.valid() {
		return wrong("on duplicate", "%q is no policy for held dedup keys; there are %q, %q and %q", Clip(string(s.OnDuplicate), 40), Ignore, Replace, Skip)
	}
	if s.OnDuplicate == Replace && (s.child || s.Finalizes) {
		return wrong("on duplicate", "%q is for jobs that stand alone; members of trees have %q", Replace, Skip)
	}
	if !s.OnLost.valid() {
		return wrong("on lost", "%q is no policy for lost jobs; there are %q and %q", Clip(string(s.OnLost), 40), LostRetry, LostDeadLetter)
	}
	return s.checkWords()
}

func (s *Spec) checkTimes() error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"delay", s.Delay}, {"max age", s.MaxAge}, {"deadline", s.Deadline}, {"seal by", s.SealBy}} {
		if d.value < 0 || d.value > MaxDuration {
			return wrong(d.field, "%v is outside 0 to %v", d.value, MaxDuration)
		}
	}
	if s.Timeout != NoTimeout && (s.Timeout < 0 || s.Timeout > MaxDuration) {
		return wrong("timeout", "%v is outside 0 to %v; for none use tree.NoTimeout", s.Timeout, MaxDuration)
	}
	if s.Timeout > 0 && s.Timeout < time.Millisecond {
		return wrong("timeout", "%v is below a millisecond, the unit it is kept in", s.Timeout)
	}
	if s.KeepFor != nil && (*s.KeepFor < 0 || *s.KeepFor > MaxDuration) {
		return wrong("keep for", "%v is outside 0 to %v", *s.KeepFor, MaxDuration)
	}
	// PostgreSQL's timestamps reach further, but no calendar that prints four digits for a year does.
	if year := s.DueAt.UTC().Year(); year < 1 || year > 9999 {
		return wrong("due time", "year %d is outside 1 to 9999", year)
	}
	if s.Backoff != nil {
		if err := s.Backoff.Check(); err != nil {
			return wrong("backoff", "%v", err)
		}
		b := s.Backoff.WithDefaults() // the row is to say what it means, whatever the defaults become
		s.Backoff = &b
	}
	return nil
}

func (s *Spec) checkWords() error {
	if s.hasDedup || s.DedupKey != "" {
		if err := checkName(s.DedupKey, MaxKeyBytes); err != nil {
			return wrong("dedup key", "%v", err)
		}
	}
	if s.hasKey || s.ChildKey != "" {
		if !s.child {
			return wrong("key", "names a child among its siblings, and this node is a root; for one live job of a kind use tree.Dedup")
		}
		if err := checkName(s.ChildKey, MaxKeyBytes); err != nil {
			return wrong("key", "%v", err)
		}
	}
	if s.hasGroup || s.GroupKey != "" {
		if err := checkName(s.GroupKey, MaxKeyBytes); err != nil {
			return wrong("group", "%v", err)
		}
	}
	if s.hasLimit || s.LimitKey != "" {
		if err := checkName(s.LimitKey, MaxKeyBytes); err != nil {
			return wrong("limit", "%v", err)
		}
	}
	if len(s.Tags) > MaxTags {
		return wrong("tags", "%d are more than %d", len(s.Tags), MaxTags)
	}
	for _, t := range s.Tags {
		if err := checkName(t, MaxTagBytes); err != nil {
			return wrong("tags", "%v", err)
		}
	}
	return checkMeta(s.Meta)
}

func checkMeta(meta map[string]string) error {
	size := 2
	for k, v := range meta {
		for _, text := range []string{k, v} {
			if err := checkText(text); err != nil {
				return wrong("meta", "%q %v", Clip(text, 40), err)
			}
		}
		if k == "" {
			return wrong("meta", "a key is empty")
		}
		size += len(k) + len(v) + 6
	}
	if 6*size <= MaxMetaBytes { // no escape is longer than six times what it stands for
		return nil
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		return wrong("meta", "does not encode as JSON: %v", err)
	}
	if len(raw) > MaxMetaBytes {
		return wrong("meta", "%d bytes of JSON are more than %d", len(raw), MaxMetaBytes)
	}
	return nil
}

// checkName is for words that people type, compare and see in lists.
func checkName(s string, limit int) error {
	switch {
	case s == "":
		return fmt.Errorf("is empty")
	case len(s) > limit:
		return fmt.Errorf("%q has %d bytes, more than %d", Clip(s, 40), len(s), limit)
	}
	if err := checkText(s); err != nil {
		return fmt.Errorf("%q %w", Clip(s, 40), err)
	}
	if strings.TrimSpace(s) == "" {
		return fmt.Errorf("%q is blank", Clip(s, 40))
	}
	return nil
}

// checkText refuses what PostgreSQL's text type cannot hold.
func checkText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("is not valid UTF-8")
	}
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("holds a NUL character, which PostgreSQL cannot store")
	}
	return nil
}
