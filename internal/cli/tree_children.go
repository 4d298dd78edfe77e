package cli

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// listChildren writes every child of a job behind the child after, a page at a time: in a table, or in JSON
// lines. Whoever has enough interrupts it.
func (a *App) listChildren(ctx context.Context, st *store.Store, id, after tree.ID, asJSON bool) error {
	job, err := st.Job(ctx, id)
	if err != nil {
		return notFound(err, "job", id)
	}
	for first := true; first || after != 0; first = false {
		var rows []store.ChildRow
		rows, after, err = st.Children(ctx, job.RootID, id, after, store.MaxPage)
		if err != nil {
			return err
		}
		switch {
		case asJSON:
			for _, r := range rows {
				if err := a.writeJSONLine(childOf(r)); err != nil {
					return err
				}
			}
		case len(rows) > 0:
			if err := a.writeChildren(rows, first); err != nil {
				return err
			}
		case first:
			fmt.Fprintf(a.Err, "job %d has no such children\n", id)
		}
	}
	return nil
}

// writeChildren writes one page. Columns have a width of their own on every page; only the first has headings.
func (a *App) writeChildren(rows []store.ChildRow, headings bool) error {
	t := a.newTable("job>", "state", "kind~", "key~", "children>", "attempts>", "error")
	if !headings {
		t.ResetHeaders()
	}
	for _, r := range rows {
		kids := "-"
		if r.Round > 0 {
			kids = count(totalOf(r.Counters))
		}
		said := string(r.Reason)
		if r.LastError != "" {
			if said != "" {
				said += ": "
			}
			said += oneLine(r.LastError, 100)
		}
		t.AppendRow(table.Row{
			r.ID, a.state(r.State), oneLine(r.Kind, 40), oneLine(r.ChildKey, 60), kids,
			fmt.Sprintf("%d/%d", r.Attempt, r.MaxAttempts), said,
		})
	}
	return a.writeTable(t)
}
