package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// Defaults of a reaper.
const (
	DefaultRescue = "@every 10s"
	DefaultUpkeep = "* * * * *"
)

// rescueLimit bounds how many jobs one pass takes back from one dead worker.
const rescueLimit = 1_000

// closeLimit bounds how many jobs past their time, and how many trees at once, a pass looks at; closePages how often.
const (
	closeLimit = 500
	closePages = 10
)

// passLimit bounds one pass in time: a database that hangs must not stop the schedule for ever.
const passLimit = time.Minute

// Config configures a reaper. The zero value is fit for use.
type Config struct {
	// Rescue is when jobs of dead workers are taken back, as a cron spec of five fields or a descriptor
	// such as "@every 10s"; "": DefaultRescue. A job comes back at the latest one lease and one such
	// interval after its worker's death.
	Rescue string
	// Upkeep is when everything else is done; "": DefaultUpkeep.
	Upkeep string
	// Location is the time zone of the specs; nil: UTC.
	Location *time.Location
	// Logger; nil: logs nothing.
	Logger *slog.Logger
}

// ErrStarted refuses a second start: a reaper lives once.
var ErrStarted = errors.New("coppice: the reaper was started before; make a new one")

// Reaper runs the passes. It lives once: Start, then Stop.
type Reaper struct {
	store  *store.Store
	config Config
	cron   *cron.Cron
	ctx    context.Context //nolint:containedctx // of every pass: cron's functions take none; ends at Stop
	cancel context.CancelFunc

	closing    sync.Mutex // protects following field; held for as long as a pass closes trees
	closedUpTo tree.ID    // the last tree that a pass swept

	mu      sync.Mutex // protects following fields
	started bool
}

// New makes a reaper. It does no I/O. Errors: a spec that cannot be read.
func New(st *store.Store, config Config) (*Reaper, error) {
	if st == nil {
		return nil, fmt.Errorf("coppice: a reaper needs a store")
	}
	if config.Rescue == "" {
		config.Rescue = DefaultRescue
	}
	if config.Upkeep == "" {
		config.Upkeep = DefaultUpkeep
	}
	if config.Location == nil {
		config.Location = time.UTC
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Reaper{store: st, config: config}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	quiet := cron.DiscardLogger
	r.cron = cron.New(cron.WithLocation(config.Location), cron.WithLogger(quiet),
		cron.WithChain(cron.Recover(quiet), cron.SkipIfStillRunning(quiet)))
	for _, job := range []struct {
		field, spec string
		pass        func(context.Context) error
	}{{"Rescue", config.Rescue, r.rescue}, {"Upkeep", config.Upkeep, r.upkeep}} {
		if _, err := r.cron.AddFunc(job.spec, func() { r.run(job.field, job.pass) }); err != nil {
			return nil, fmt.Errorf("coppice: reaper configuration: %s: %w", job.field, err)
		}
	}
	return r, nil
}

// Start begins the schedule.
func (r *Reaper) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started {
		return ErrStarted
	}
	r.started = true
	r.cron.Start()
	return nil
}

// Stop ends the schedule and interrupts the passes that run. It returns when they have ended, or with ctx's error.
func (r *Reaper) Stop(ctx context.Context) error {
	r.mu.Lock()
	r.started = true // it will never start again
	r.mu.Unlock()
	r.cancel()
	select {
	case <-r.cron.Stop().Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("coppice: stop the reaper: %w", context.Cause(ctx))
	}
}

// Pass does everything once, now, whatever the schedule says.
func (r *Reaper) Pass(ctx context.Context) error {
	return errors.Join(r.rescue(ctx), r.upkeep(ctx))
}

func (r *Reaper) run(name string, pass func(context.Context) error) {
	ctx, cancel := context.WithTimeout(r.ctx, passLimit)
	defer cancel()
	if err := pass(ctx); err != nil && r.ctx.Err() == nil {
		r.config.Logger.Warn("coppice: a reaper's pass failed; the next will try again", "pass", name, "error", err)
	}
}

func (r *Reaper) rescue(ctx context.Context) error {
	got, err := r.store.Rescue(ctx, rescueLimit)
	if got.Retried+got.DeadLettered+got.Workers > 0 {
		r.config.Logger.Warn("coppice: took back the jobs of dead workers", "workers", got.Workers, "retried", got.Retried, "dead", got.DeadLettered)
	}
	done, failed := r.closeTrees(ctx)
	woken := append(done.Woken, got.Woken...)
	if ended := append(done.Ended, got.Ended...); len(ended) > 0 {
		err = errors.Join(err, r.store.NotifyEnded(ctx, ended))
	}
	if len(woken) > 0 {
		err = errors.Join(err, r.store.Notify(ctx, slices.Compact(slices.Sorted(slices.Values(woken)))))
	}
	return errors.Join(err, failed)
}

// closeTrees closes what is past its deadline or was never sealed, and carries on what others have begun to close and left.
func (r *Reaper) closeTrees(ctx context.Context) (done store.Swept, err error) {
	r.closing.Lock()
	defer r.closing.Unlock()
	done, err = r.store.CloseOverdue(ctx, closeLimit)
	for pages := 0; pages < closePages; pages++ {
		roots, listed := r.store.ClosingTrees(ctx, r.closedUpTo, closeLimit)
		err = errors.Join(err, listed)
		for _, root := range roots {
			swept, failed := r.store.Sweep(ctx, root)
			done.Add(swept)
			if err = errors.Join(err, failed); ctx.Err() != nil {
				return done, err
			}
			r.closedUpTo = root // so that every tree has its turn, however many there are
		}
		if len(roots) < closeLimit {
			r.closedUpTo = 0
			break
		}
	}
	if done.Cancelled+done.DeadLettered > 0 {
		r.config.Logger.Info("coppice: closed jobs", "cancelled", done.Cancelled, "dead", done.DeadLettered)
	}
	return done, err
}

func (r *Reaper) upkeep(ctx context.Context) error {
	made, err := r.store.EnsureHistory(ctx)
	if made > 0 {
		r.config.Logger.Debug("coppice: made partitions of the history", "partitions", made)
	}
	woken, failed := r.store.Unpark(ctx, rescueLimit)
	if len(woken) > 0 {
		r.config.Logger.Warn("coppice: jobs were parked although their group or limit had room; they are looked at again", "queues", woken)
		failed = errors.Join(failed, r.store.Notify(ctx, woken))
	}
	return errors.Join(err, failed)
}
