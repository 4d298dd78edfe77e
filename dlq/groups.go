package dlq

import (
	"context"

	"github.com/coppicehq/coppice/store"
)

// MaxGroups is the most groups that [Letters.Groups] returns.
const MaxGroups = store.MaxDeadGroups

// Group is what dead letters of one queue, kind and reason have in common.
type Group = store.DeadGroup

// Groups counts the dead letters that match f by queue, kind and reason, the largest group first. more says
// that there are more groups than the MaxGroups that it returns. It reads all that match: ask every few
// seconds, not for every job.
//
// Errors: [ErrBadFilter].
func (l *Letters) Groups(ctx context.Context, f Filter) (groups []Group, more bool, err error) {
	return l.store.DeadGroups(ctx, f)
}
