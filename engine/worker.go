package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// Errors of a worker's life.
var (
	// ErrStarted refuses a second start: a worker lives once.
	ErrStarted = errors.New("coppice: the worker was started before; make a new one")
	// ErrHandlersRunning is what Stop returns when its context ended before the handlers did. They run on,
	// and the worker's lease is renewed until they end.
	ErrHandlersRunning = errors.New("coppice: handlers are still running")
	// ErrUnrecorded is what Stop returns when the database did not take outcomes for as long as the worker's
	// lease. It has stopped; those jobs run again, at the cost of an attempt, when a reaper takes them back.
	ErrUnrecorded = errors.New("coppice: outcomes could not be recorded; those jobs run again when the worker's lease is over")
)

// Worker claims jobs of its queues, runs their handlers and settles them. It lives once: Start, then Stop.
type Worker struct {
	client   *Client
	config   WorkerConfig
	work     map[string]*handler
	finalize map[string]*handler

	workKinds, finalizeKinds []string
	lanes                    map[string]*lane
	held                     *claims
	sweeper                  *sweeper
	settler                  *settler
	born                     time.Time // for the monotonic clock
	id                       atomic.Int64
	releasing                atomic.Bool // what has not started goes back

	lapsed       chan struct{} // cap 1: a claim found that the lease is over
	claimTrouble trouble
	leaseTrouble trouble

	handlers       context.Context //nolint:containedctx // of every handler; a worker's life has the bounds of no call
	cancelHandlers context.CancelCauseFunc
	stopClaims     context.CancelFunc
	stopUpkeep     context.CancelFunc
	slots          sync.WaitGroup // slot goroutines
	claims         sync.WaitGroup // claiming goroutines
	upkeep         sync.WaitGroup // lease, listener

	mu      sync.Mutex // protects following fields
	started bool
	stopped chan struct{} // closed when nothing of the worker runs any more
	ended   error         // nil, or ErrUnrecorded; written before stopped is closed
}

// NewWorker makes a worker of what is registered now. It does no I/O. Errors: everything that is wrong with
// the configuration, and that there is no handler at all, at once.
func NewWorker(client *Client, reg *Registry, config WorkerConfig) (*Worker, error) {
	if client == nil || reg == nil {
		return nil, fmt.Errorf("coppice: a worker needs a client and a registry")
	}
	config, err := config.withDefaults(client)
	work, finalize := reg.snapshot()
	if len(work)+len(finalize) == 0 {
		err = errors.Join(err, errors.New("coppice: the registry has no handlers; register some with engine.Work or engine.Finalize"))
	}
	if err != nil {
		return nil, err
	}
	w := &Worker{
		client: client, config: config, work: work, finalize: finalize, held: newClaims(), born: time.Now(), stopped: make(chan struct{}),
	}
	w.lapsed = make(chan struct{}, 1)
	w.claimTrouble = trouble{
		logger: config.Logger, level: slog.LevelWarn, what: "coppice: claim failed; trying again", gone: "coppice: claims succeed again",
	}
	w.leaseTrouble = trouble{
		logger: config.Logger, level: slog.LevelWarn, what: "coppice: lease not renewed; trying again", gone: "coppice: the lease is renewed again",
	}
	w.workKinds, w.finalizeKinds = sortedKeys(w.work), sortedKeys(w.finalize)
	w.lanes = make(map[string]*lane, len(config.Queues))
	for name, q := range config.Queues {
		w.lanes[name] = newLane(w, name, q.MaxRunning)
	}
	w.sweeper = newSweeper(client, config.Logger)
	w.settler = newSettler(client.store, w.ID, w.written, config.Logger)
	return w, nil
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// ID names this run of the worker; 0 before Start.
func (w *Worker) ID() tree.WorkerID { return tree.WorkerID(w.id.Load()) }

// Done is closed when the worker has stopped and nothing of it runs any more.
func (w *Worker) Done() <-chan struct{} { return w.stopped }

func (w *Worker) sinceStart() time.Duration { return time.Since(w.born) }

// Start checks the schema's version, registers the worker and begins to claim. ctx bounds the start alone.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return ErrStarted
	}
	if err := w.begin(ctx); err != nil {
		return fmt.Errorf("coppice: start the worker: %w", err)
	}
	w.started = true
	var claiming, keeping context.Context
	w.handlers, w.cancelHandlers = context.WithCancelCause(context.Background())
	claiming, w.stopClaims = context.WithCancel(context.Background())
	keeping, w.stopUpkeep = context.WithCancel(context.Background())
	for _, l := range w.lanes {
		w.slots.Add(l.slots)
		for range l.slots {
			go l.slot()
		}
		w.claims.Go(func() { l.loop(claiming) })
	}
	go w.settler.loop(keeping)
	w.upkeep.Go(func() { w.keepLease(keeping) })
	w.upkeep.Go(func() { w.sweeper.loop(keeping) })
	if !w.config.PollOnly {
		w.upkeep.Go(func() { w.listen(keeping) })
	}
	w.client.addWaker(w)
	return nil
}

func (w *Worker) begin(ctx context.Context) error {
	if err := w.client.store.CheckSchema(ctx); err != nil {
		return err
	}
	w.prepareHistory(ctx)
	return w.register(ctx)
}

// prepareHistory makes the history's partitions for the days to come. Without them outcomes go to the default
// partition, so it is no reason not to work: the role may lack the right to create tables.
func (w *Worker) prepareHistory(ctx context.Context) {
	if _, err := w.client.store.EnsureHistory(ctx); err != nil {
		w.config.Logger.Warn("coppice: the history's partitions could not be made; finished jobs go to its default partition", "error", err)
	}
}

func (w *Worker) register(ctx context.Context) error {
	host, _ := os.Hostname()
	id, err := w.client.store.Register(ctx, store.WorkerInfo{
		Name: w.config.Name, Host: tree.CleanText(host, tree.MaxKindBytes), PID: os.Getpid(), Queues: w.queueNames(),
		Kinds: slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(w.workKinds), w.finalizeKinds...)))),
		Lease: w.config.Lease,
	})
	if err != nil {
		return err
	}
	w.id.Store(int64(id))
	return w.refreshQueues(ctx)
}

func (w *Worker) queueNames() []string { return sortedKeys(w.lanes) }

// refreshQueues reads what the queues' rows say.
func (w *Worker) refreshQueues(ctx context.Context) error {
	settings, err := w.client.store.Settings(ctx, w.queueNames())
	if err != nil {
		return err
	}
	for name, q := range settings {
		l := w.lanes[name]
		l.keeps.Store(q.KeepHistory > 0)
		if l.paused.Swap(q.Paused) != q.Paused {
			l.wake() // to give back, or to claim again
		}
	}
	return nil
}

// Run starts the worker, works until ctx ends, and stops it: it returns when the last handler has. Errors: those
// of [Worker.Start], and [ErrUnrecorded].
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return w.Stop(context.WithoutCancel(ctx))
}

// Stop ends the worker: it claims no more, gives back what has not started, at no cost, and lets handlers
// finish for the grace period; then their contexts end with [ErrShutdown], and what they were doing
// goes back at no cost too. It returns nil when everything has ended and is recorded, and
// [ErrUnrecorded] when it has ended and some outcomes are not. If ctx ends first it returns
// [ErrHandlersRunning] with the jobs' ids, or ctx's error; the worker then goes on ending in the
// background, its lease renewed, and [Worker.Done] tells when. It may be called again.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	if !w.started {
		w.started = true // it will never start
		close(w.stopped)
		w.mu.Unlock()
		return nil
	}
	if w.stopClaims != nil && !w.releasing.Swap(true) {
		go w.end() //nolint:gosec // it outlives the call on purpose
	}
	w.mu.Unlock()
	select {
	case <-w.stopped:
		return w.ended
	case <-ctx.Done():
	}
	w.cancelHandlers(ErrShutdown) // the caller's patience is over, whatever is left of the grace
	select {
	case <-w.stopped:
		return w.ended
	case <-time.After(stopLinger): // handlers that heed their context are given the time to say so
	}
	if ids := w.held.running(); len(ids) > 0 {
		return fmt.Errorf("%w: %d jobs, among them %v: %w", ErrHandlersRunning, len(ids), ids[:min(len(ids), 10)], context.Cause(ctx))
	}
	return fmt.Errorf("coppice: the worker is still writing outcomes: %w", context.Cause(ctx))
}

// stopLinger is how long Stop waits, once its context has ended, for handlers that return when theirs does.
const stopLinger = 250 * time.Millisecond

// end takes the worker apart, in the order that loses nothing (docs/internals.md, Stop).
func (w *Worker) end() {
	w.client.removeWaker(w)
	w.stopClaims()
	w.claims.Wait() // lanes are closed; slots give back what has not started
	if w.config.Grace > 0 {
		timer := time.AfterFunc(w.config.Grace, func() { w.cancelHandlers(ErrShutdown) })
		w.slots.Wait()
		timer.Stop()
	} else {
		w.cancelHandlers(ErrShutdown)
		w.slots.Wait()
	}
	w.settler.close()
	select {
	case <-w.settler.done:
	case <-time.After(w.config.Lease):
		// The database is gone, and what is not written by now may be others' to do again.
	}
	w.stopUpkeep()
	<-w.settler.done
	if n := w.settler.left; n > 0 {
		w.ended = fmt.Errorf("%w: %d jobs", ErrUnrecorded, n)
		w.config.Logger.Warn("coppice: the worker stops without having written every outcome; those jobs run again when its lease is over", "jobs", n)
	}
	w.upkeep.Wait()
	w.cancelHandlers(ErrShutdown)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.giveBackUnknown(ctx); err != nil {
		w.config.Logger.Debug("coppice: claims not compared", "error", err)
	}
	if err := w.client.store.Unregister(ctx, w.ID()); err != nil {
		w.config.Logger.Debug("coppice: worker not unregistered; its lease will run out", "error", err)
	}
	close(w.stopped)
}

// wake is the client's and the listener's hint that queues may have jobs. It answers those that the worker serves.
func (w *Worker) wake(queues []string) (served []string) {
	for _, q := range queues {
		if l, ok := w.lanes[q]; ok {
			l.wake()
			served = append(served, q)
		}
	}
	return served
}

// written follows a settle's commit: the claims are over, and what became ready or comes due is looked at.
func (w *Worker) written(batch []store.Ending, got *store.Settled) {
	w.held.drop(batch)
	room := map[string]struct{}{}
	for i := range batch {
		e := &batch[i]
		l := w.lanes[e.Queue]
		if e.End == store.EndRetry || e.End == store.EndSnoozed {
			l.dueIn(e.Delay)
		}
		if l != nil && l.careful.Load() { // the queue may be limited, and has room for another, wherever that is started
			room[e.Queue] = struct{}{}
		}
	}
	if len(room) > 0 {
		w.client.Wake(sortedKeys(room)...)
	}
	if len(got.Woken) > 0 {
		w.client.Wake(got.Woken...)
	}
	w.sweeper.add(got.Closing)
	w.client.ended(got.Ended)
	for _, l := range w.lanes { // one may have waited for its backlog to shrink
		l.nudge()
	}
}
