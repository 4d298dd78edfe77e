package engine

import "context"

// Next runs one attempt: the handler, or the middleware below it.
type Next func(ctx context.Context, job *JobInfo) error

// Middleware wraps every attempt of a worker: it may change the context, time and log the attempt, or replace
// its error. It must call next at most once. A panic in it fails the attempt like one in the handler.
type Middleware func(next Next) Next

// chain puts the middleware around f, the first one outermost.
func chain(f Next, middleware []Middleware) Next {
	for i := len(middleware) - 1; i >= 0; i-- {
		f = middleware[i](f)
	}
	return f
}
