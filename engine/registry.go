package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// ErrRegistered refuses a second handler for one kind.
var ErrRegistered = errors.New("coppice: the kind has such a handler already")

var errNilRegistration = errors.New("coppice: registering needs a registry and a handler; one is nil")

// Registry knows the handlers of kinds. It is safe for concurrent use; a worker takes what is registered when
// it starts.
type Registry struct {
	mu       sync.Mutex          // protects following fields
	work     map[string]*handler // by kind and alias
	finalize map[string]*handler // by kind and alias
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry {
	return &Registry{work: map[string]*handler{}, finalize: map[string]*handler{}}
}

// None is the result type of handlers that have none to give: nothing is stored.
type None struct{}

// handler is a registered handler behind an untyped face.
type handler struct {
	options handlerOptions
	run     runFunc
}

// runFunc decodes the args, calls the handler and encodes its result; nil bytes are no result.
type runFunc func(ctx context.Context, info *JobInfo, claim *store.Claim, kids *Children) ([]byte, error)

type handlerOptions struct {
	aliases []string
	timeout time.Duration
	backoff *tree.Backoff
	guard   any // a func of Guard; nil: none
	guarded bool
}

// HandlerOption sets a property of one registration.
type HandlerOption func(*handlerOptions)

// Alias lets the handler take jobs of older names of its kind, so that rows inserted before a rename still
// run.
func Alias(kinds ...string) HandlerOption {
	return func(o *handlerOptions) { o.aliases = append(o.aliases, kinds...) }
}

// HandlerTimeout is the timeout of jobs of the kind that set none of their own. tree.NoTimeout lifts the limit.
// Zero: the worker's default.
func HandlerTimeout(d time.Duration) HandlerOption { return func(o *handlerOptions) { o.timeout = d } }

// HandlerBackoff spaces the attempts of jobs of the kind that set no backoff of their own.
func HandlerBackoff(b tree.Backoff) HandlerOption {
	return func(o *handlerOptions) { o.backoff = &b }
}

// Work registers the handler that runs jobs of A's kind that have no children. What it returns is the job's
// result, encoded as JSON, for its parent's Finalize; [None] stores nothing. Errors: [ErrRegistered], or
// what is wrong with the kind or an option.
func Work[A tree.Args, R any](reg *Registry, f func(ctx context.Context, job *Job[A]) (R, error), options ...HandlerOption) error {
	if reg == nil || f == nil {
		return errNilRegistration
	}
	return add(reg, reg.work, options, func(ctx context.Context, job *Job[A], _ *Children) (R, error) { return f(ctx, job) })
}

// Finalize registers the handler that runs jobs of A's kind that have children, after all of them have
// settled. Errors as for [Work].
func Finalize[A tree.Args, R any](reg *Registry, f func(ctx context.Context, job *Job[A], kids *Children) (R, error), options ...HandlerOption) error {
	if reg == nil || f == nil {
		return errNilRegistration
	}
	return add(reg, reg.finalize, options, f)
}

// MustWork is [Work] for programs that cannot go on without: it panics on an error.
func MustWork[A tree.Args, R any](reg *Registry, f func(ctx context.Context, job *Job[A]) (R, error), options ...HandlerOption) {
	if err := Work(reg, f, options...); err != nil {
		panic(err)
	}
}

// MustFinalize is [Finalize] for programs that cannot go on without: it panics on an error.
func MustFinalize[A tree.Args, R any](reg *Registry, f func(ctx context.Context, job *Job[A], kids *Children) (R, error), options ...HandlerOption) {
	if err := Finalize(reg, f, options...); err != nil {
		panic(err)
	}
}

// add registers f under the kind of A and its aliases in one of the registry's maps.
func add[A tree.Args, R any](reg *Registry, into map[string]*handler, options []HandlerOption,
	f func(context.Context, *Job[A], *Children) (R, error),
) error {
	kind, err := kindOf[A]()
	if err != nil {
		return fmt.Errorf("coppice: register a handler: %w", err)
	}
	h := &handler{}
	var wrong []error
	for _, option := range options {
		if option == nil {
			wrong = append(wrong, errors.New("an option is nil"))
			continue
		}
		option(&h.options)
	}
	wrong = append(wrong, h.options.check()...)
	guard, err := guardOf[A](&h.options)
	if err != nil {
		wrong = append(wrong, err)
	}
	h.run = untyped(f, guard)
	reg.mu.Lock()
	defer reg.mu.Unlock()
	names := append([]string{kind}, h.options.aliases...)
	for i, name := range names {
		if _, taken := into[name]; taken || slices.Contains(names[:i], name) {
			wrong = append(wrong, fmt.Errorf("%w: %q", ErrRegistered, name))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("coppice: register the handler of %q: %w", kind, errors.Join(wrong...))
	}
	for _, name := range names {
		into[name] = h
	}
	return nil
}

// check lists everything that is wrong.
func (o *handlerOptions) check() (wrong []error) {
	for _, alias := range o.aliases {
		if err := tree.CheckKind(alias); err != nil {
			wrong = append(wrong, fmt.Errorf("alias: %w", err))
		}
	}
	if o.timeout != tree.NoTimeout && (o.timeout < 0 || o.timeout > tree.MaxDuration) {
		wrong = append(wrong, fmt.Errorf("timeout %v is outside 0 to %v; for none use tree.NoTimeout", o.timeout, tree.MaxDuration))
	}
	if o.backoff != nil {
		if err := o.backoff.Check(); err != nil {
			wrong = append(wrong, fmt.Errorf("backoff: %w", err))
		}
	}
	return wrong
}

// kindOf asks the zero value of A for its kind; a pointer type is asked through a new value.
func kindOf[A tree.Args]() (string, error) {
	var zero A
	if t := reflect.TypeFor[A](); t.Kind() == reflect.Pointer {
		zero = reflect.New(t.Elem()).Interface().(A)
	}
	return tree.KindOf(zero)
}

// untyped hides the types of a handler: args come as JSON, and the result leaves as JSON.
func untyped[A tree.Args, R any](f func(context.Context, *Job[A], *Children) (R, error), guard func(context.Context, *Job[A]) (string, error)) runFunc {
	return func(ctx context.Context, info *JobInfo, claim *store.Claim, kids *Children) ([]byte, error) {
		job, err := decode[A](info, claim)
		if err != nil {
			return nil, err
		}
		if guard != nil {
			if info.skipped, err = guard(ctx, job); err != nil || info.skipped != "" {
				return nil, err
			}
		}
		result, err := f(ctx, job, kids)
		if err != nil {
			return nil, err
		}
		return encode(result)
	}
}

// snapshot copies what is registered now: a worker's handlers do not change under it.
func (r *Registry) snapshot() (work, finalize map[string]*handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.work), maps.Clone(r.finalize)
}

// undecodableError says that a job's args do not fit its handler: no retry mends that.
type undecodableError struct{ err error }

func (e *undecodableError) Error() string { return "args do not decode: " + e.err.Error() }
func (e *undecodableError) Unwrap() error { return e.err }

// badResultError says that a result cannot be stored: running the job again would give the same.
type badResultError struct{ err error }

func (e *badResultError) Error() string { return "result cannot be stored: " + e.err.Error() }
func (e *badResultError) Unwrap() error { return e.err }

func decode[A tree.Args](info *JobInfo, claim *store.Claim) (*Job[A], error) {
	job := &Job[A]{JobInfo: info}
	if err := json.Unmarshal(claim.Args, &job.Args); err != nil {
		return nil, &undecodableError{err}
	}
	return job, nil
}

func encode(result any) ([]byte, error) {
	if _, none := result.(None); none {
		return nil, nil
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return nil, &badResultError{err}
	}
	if string(raw) == "null" {
		return nil, nil
	}
	if err := tree.CheckStrings(result, raw); err != nil {
		return nil, &badResultError{err}
	}
	return raw, nil
}
