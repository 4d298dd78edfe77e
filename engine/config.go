package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/coppicehq/coppice/tree"
)

// Defaults of a worker.
const (
	DefaultMaxRunning   = 100
	DefaultPollInterval = time.Second
	DefaultLease        = 30 * time.Second
	DefaultGrace        = 10 * time.Second
)

// QueueConfig says how a worker serves one queue.
type QueueConfig struct {
	// MaxRunning is how many jobs of the queue this worker runs at once, 1 to 10,000; 0: DefaultMaxRunning.
	MaxRunning int
}

// WorkerConfig configures a worker. The zero value serves the default queue.
type WorkerConfig struct {
	// Queues are the queues to serve. Empty: tree.DefaultQueue alone.
	Queues map[string]QueueConfig
	// Name tells this process from others in lists. "": the host's name.
	Name string
	// PollInterval is how long a queue that went dry stays unasked when no wake-up comes, 10 ms to an
	// hour; 0: DefaultPollInterval. Polling finds everything; wake-ups only find it sooner.
	PollInterval time.Duration
	// PollOnly does without LISTEN, and so without a connection of its own: for PgBouncer in transaction mode.
	PollOnly bool
	// Lease is how long the worker may stay silent before its jobs may be taken back, 1 s to an hour; 0:
	// DefaultLease. It is renewed every third of it.
	Lease time.Duration
	// Grace is how long Stop lets handlers finish before it cancels their contexts; 0: DefaultGrace;
	// negative: not at all.
	Grace time.Duration
	// Timeout of jobs that set none and whose handler's registration sets none; 0: tree.DefaultTimeout;
	// tree.NoTimeout: none.
	Timeout time.Duration
	// Backoff of jobs that set none and whose handler's registration sets none; nil: tree.DefaultBackoff.
	Backoff *tree.Backoff
	// MaxResultBytes limits a result's JSON, 1 to 64 MiB; 0: tree.MaxResultBytes.
	MaxResultBytes int
	// Middleware wraps every attempt, the first outermost.
	Middleware []Middleware
	// Logger; nil: the client's.
	Logger *slog.Logger
}

// withDefaults fills in what is zero and reports everything that is wrong, at once.
func (c WorkerConfig) withDefaults(client *Client) (WorkerConfig, error) {
	var wrong []error
	complain := func(format string, a ...any) { wrong = append(wrong, fmt.Errorf(format, a...)) }
	queues := make(map[string]QueueConfig, len(c.Queues))
	for name, q := range c.Queues {
		if err := tree.CheckQueue(name); err != nil {
			complain("Queues: name %w", err)
		}
		if q.MaxRunning == 0 {
			q.MaxRunning = DefaultMaxRunning
		}
		if q.MaxRunning < 1 || q.MaxRunning > 10_000 {
			complain("Queues[%q].MaxRunning: %d is outside 1 to 10000", name, q.MaxRunning)
		}
		queues[name] = q
	}
	if len(queues) == 0 {
		queues[tree.DefaultQueue] = QueueConfig{MaxRunning: DefaultMaxRunning}
	}
	c.Queues = queues
	setDefault(&c.PollInterval, DefaultPollInterval)
	if c.PollInterval < 10*time.Millisecond || c.PollInterval > time.Hour {
		complain("PollInterval: %v is outside 10ms to 1h", c.PollInterval)
	}
	setDefault(&c.Lease, DefaultLease)
	if c.Lease < time.Second || c.Lease > time.Hour {
		complain("Lease: %v is outside 1s to 1h", c.Lease)
	}
	setDefault(&c.Grace, DefaultGrace)
	setDefault(&c.Timeout, tree.DefaultTimeout)
	if c.Timeout != tree.NoTimeout && (c.Timeout < 0 || c.Timeout > tree.MaxDuration) {
		complain("Timeout: %v is outside 0 to %v; for none use tree.NoTimeout", c.Timeout, tree.MaxDuration)
	}
	if c.Backoff == nil {
		b := tree.DefaultBackoff()
		c.Backoff = &b
	} else if err := c.Backoff.Check(); err != nil {
		complain("Backoff: %w", err)
	}
	setDefault(&c.MaxResultBytes, tree.MaxResultBytes)
	if c.MaxResultBytes < 1 || c.MaxResultBytes > 64<<20 {
		complain("MaxResultBytes: %d is outside 1 to %d", c.MaxResultBytes, 64<<20)
	}
	for i, m := range c.Middleware {
		if m == nil {
			complain("Middleware[%d]: is nil", i)
		}
	}
	if c.Name == "" {
		c.Name, _ = os.Hostname()
	}
	c.Name = tree.CleanText(c.Name, tree.MaxKindBytes)
	if c.Logger == nil {
		c.Logger = client.logger
	}
	if len(wrong) > 0 {
		return c, fmt.Errorf("coppice: worker configuration: %w", errors.Join(wrong...))
	}
	return c, nil
}

func setDefault[T comparable](value *T, def T) {
	var zero T
	if *value == zero {
		*value = def
	}
}
