package dlq

import (
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// ErrBadCursor is in the chain of the error for a cursor that List did not return, or not in this order.
var ErrBadCursor = errors.New("bad cursor")

// A cursor is the order and the key of the last entry of a page, the time as microseconds since 1970, in
// base64 that needs no quotes in a shell or a URL.
const (
	cursorForm  = "%s %d %d"
	newestFirst = "newest"
	oldestFirst = "oldest"
)

func order(oldest bool) string {
	if oldest {
		return oldestFirst
	}
	return newestFirst
}

// formatCursor writes the key, and "" for none.
func formatCursor(key *store.DeadKey, order string) string {
	if key == nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, cursorForm, order, key.FailedAt.UnixMicro(), key.ID))
}

// parseCursor reads what formatCursor wrote, and nothing else: not even another spelling of the same key.
func parseCursor(text string, oldest bool) (*store.DeadKey, error) {
	if text == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, notACursor(text)
	}
	var was string
	var micros int64
	var key store.DeadKey
	if _, err := fmt.Sscanf(string(raw), cursorForm, &was, &micros, &key.ID); err != nil {
		return nil, notACursor(text)
	}
	key.FailedAt = time.UnixMicro(micros)
	year := key.FailedAt.UTC().Year()
	if formatCursor(&key, was) != text || year < 1 || year > 9999 || key.ID <= 0 {
		return nil, notACursor(text)
	}
	switch was {
	case order(oldest):
		return &key, nil
	case order(!oldest):
		return nil, fmt.Errorf("list dead letters: %w: %q is of a list in the other order", ErrBadCursor, text)
	}
	return nil, notACursor(text)
}

func notACursor(text string) error {
	return fmt.Errorf("list dead letters: %w: %q is not one that a list returned; start again without one",
		ErrBadCursor, tree.Clip(text, 64))
}
