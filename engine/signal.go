package engine

import "errors"

// Signal says whether workers are told of new jobs. The jobs are there in either case, and a worker of their queue that is not
// told finds them within its poll interval.
type Signal struct {
	// Sent: a worker of this process was woken, or the wake-up was handed on to be sent by NOTIFY, within milliseconds. That
	// it arrives is not known.
	Sent bool
	// Cause is why it was not: [ErrInTransaction], or why the newest wake-up before could not be sent; this one is tried all the
	// same. nil if it was, and if nothing was inserted.
	Cause error
}

// ErrInTransaction is the cause of jobs that were inserted in the caller's transaction: nobody can see them before it commits. Call
// [Client.Wake] then, or let workers find them.
var ErrInTransaction = errors.New("coppice: inserted in the caller's transaction; call Client.Wake after its commit")

// signal wakes workers of the queues: those of this process directly, and others by NOTIFY.
func (c *Client) signal(queues []string) Signal {
	woken := c.wakeLocal(queues)
	err := c.notes.mark(queues)
	if woken || err == nil {
		return Signal{Sent: true}
	}
	return Signal{Cause: err}
}

// wakeLocal wakes the workers of this process, and answers whether there was one for every queue.
func (c *Client) wakeLocal(queues []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	served := map[string]struct{}{}
	for w := range c.wakers {
		for _, q := range w.wake(queues) {
			served[q] = struct{}{}
		}
	}
	return len(queues) > 0 && len(served) == len(queues)
}
