package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func (a *App) treeWatch(g *globals) *cobra.Command {
	var (
		asJSON bool
		every  time.Duration
		v      view
	)
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a tree until it ends",
		Long: `Draw a tree as "tree show" does and draw it again until it ends. Where the output is no terminal it prints a
line with the counts whenever they have changed, with --json an object.

A tree ends when its root completes, is cancelled or dies. The exit code says which: 0 if it completed (or
ended so that no history is kept, which a dead tree never does), 1 if not. A stalled tree has not ended:
somebody may retry what is dead. Ctrl-C ends the watching, not the tree.`,
		Example: `  coppice tree watch 4711
  coppice tree watch 4711 --every 10s --json
  coppice tree watch 4711 && echo completed`,
		Args: operands("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			id, err := parseID(cmd, args[0])
			if err != nil {
				return err
			}
			if every < 100*time.Millisecond {
				return usage(cmd, "--every: %v is below 100ms", every)
			}
			if err := v.check(cmd); err != nil {
				return err
			}
			db, st, err := a.open(ctx, g)
			if err != nil {
				return err
			}
			defer db.close(ctx)
			w := watch{app: a, store: st, id: id, view: v, asJSON: asJSON}
			return w.run(ctx, a.After, every)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&every, "every", time.Second, "look so often")
	flags.IntVar(&v.depth, "depth", 3, "show so many levels")
	flags.IntVar(&v.children, "children", 10, "show so many children of a parent")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// watch follows one tree.
type watch struct {
	app    *App
	store  *store.Store
	id     tree.ID
	view   view
	asJSON bool

	seen  bool                 // it was there
	last  map[tree.State]int64 // what was printed last
	drawn int                  // lines on the terminal that the next drawing replaces
}

func (w *watch) run(ctx context.Context, after func(time.Duration) <-chan time.Time, every time.Duration) error {
	for {
		p, err := takePicture(ctx, w.store, w.id, w.view)
		if errors.Is(err, store.ErrNotFound) && w.seen {
			fmt.Fprintf(w.app.Err, "tree %d has ended, and its history is not kept\n", w.id)
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.show(p); err != nil {
			return err
		}
		if p.top.Place != store.PlaceLive {
			return ending(p.top.State)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-after(every):
		}
	}
}

// ending turns how a tree ended into the command's answer.
func ending(s tree.State) error {
	if s == tree.Completed {
		return nil
	}
	return errAnswered // the last line shows it
}

func (w *watch) show(p *picture) error {
	if w.app.OutTerminal && !w.asJSON {
		return w.redraw(p)
	}
	if w.seen && maps.Equal(w.last, p.counts.States) && p.top.Place == store.PlaceLive {
		return nil
	}
	w.seen, w.last = true, p.counts.States
	if w.asJSON {
		return w.app.writeJSONLine(p.json())
	}
	_, err := fmt.Fprintln(w.app.Out, w.app.summary(p))
	return err
}

// redraw puts a drawing in the place of the one before, in one write so that it does not flicker. What is higher than the
// terminal cannot be taken back, so a drawing is cut to it.
func (w *watch) redraw(p *picture) error {
	w.seen = true
	lines := w.app.lines(p)
	if height := w.app.height(); height > 1 && len(lines) > height-1 {
		lines = append(lines[:height-2], "…")
	}
	var b strings.Builder
	if w.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", w.drawn) // up, and clear what is below
	}
	b.WriteString(strings.Join(lines, "\n") + "\n")
	w.drawn = len(lines)
	_, err := fmt.Fprint(w.app.Out, b.String())
	return err
}
