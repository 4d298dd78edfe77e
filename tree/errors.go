package tree

import (
	"errors"
	"fmt"
)

// ErrInvalid is what every refusal of a node's description matches with errors.Is.
var ErrInvalid = errors.New("coppice: invalid job")

// InvalidError says which node and which of its fields cannot be inserted, and why. Nothing was written.
type InvalidError struct {
	Path    string // as Plan.Path gives it
	Kind    string // the node's kind; "" if that, or the node itself, is what is wrong
	Field   string // args, queue, priority, ...
	Problem string // what is wrong and what would be right
}

func (e *InvalidError) Error() string {
	kind := ""
	if e.Kind != "" {
		kind = fmt.Sprintf(" (kind %q)", e.Kind)
	}
	return fmt.Sprintf("coppice: invalid job at %s%s: %s: %s", e.Path, kind, e.Field, e.Problem)
}

// Is makes every InvalidError match ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }
