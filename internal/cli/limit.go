package cli

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/store"
)

func (a *App) limit(g *globals) *cobra.Command {
	return group("limit",
		"Limit the jobs of a key",
		`Limit jobs that share a key (tree.Limit), across all processes and queues: how many of them may run at a time, and
how many may be started a second. A key without a limit limits nothing. For all jobs of a queue there is
"coppice queue limit".`,
		`  coppice limit list
  coppice limit set api.example.com --max 10 --rate 50
  coppice limit delete api.example.com`,
		a.limitList(g),
		a.limitSet(g),
		a.limitDelete(g),
	)
}

// limitJSON is one limit in the answers of "limit --json".
type limitJSON struct {
	Key              string  `json:"key"`
	MaxRunning       int     `json:"max_running"` // 0: any number
	Rate             float64 `json:"rate"`        // a second; 0: any number
	Burst            float64 `json:"burst"`
	Tokens           float64 `json:"tokens"`
	NextTokenSeconds float64 `json:"next_token_seconds"` // 0: nobody waits for one
	Running          int     `json:"running"`
	Parked           int     `json:"parked"` // counted up to 1,000
}

func limitOf(l store.LimitRow) limitJSON {
	return limitJSON{l.Key, l.MaxRunning, l.Rate, l.Burst, l.Tokens, l.NextToken.Seconds(), l.Running, l.Parked}
}

func (a *App) limitList(g *globals) *cobra.Command {
	var asJSON bool
	var limit int
	var after string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the limits of keys",
		Long: `List the limits of keys with what there is of each:

  running   of so many
  rate      starts a second, and how many at once after a rest
  tokens    that may be taken now
  parked    jobs that are ready and have found no room, counted up to 1,000`,
		Example: "  coppice limit list\n  coppice limit list --json",
		Args:    operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > store.MaxPage {
				return usage(cmd, "--limit: %d is outside 1 to %d", limit, store.MaxPage)
			}
			db, st, err := a.open(cmd.Context(), g)
			if err != nil {
				return err
			}
			defer db.close(cmd.Context())
			rows, err := st.Limits(cmd.Context(), after, limit)
			if err != nil {
				return err
			}
			if asJSON {
				out := make([]limitJSON, len(rows))
				for i, l := range rows {
					out[i] = limitOf(l)
				}
				return a.writeJSON(out)
			}
			if len(rows) == 0 {
				fmt.Fprintln(a.Err, "there are no such limits")
				return nil
			}
			t := a.newTable("key~", "running>", "rate>", "tokens>", "parked>")
			for _, l := range rows {
				running, rate, tokens := count(l.Running), "-", "-"
				if l.MaxRunning > 0 {
					running += " / " + count(l.MaxRunning)
				}
				if l.Rate > 0 {
					rate = fmt.Sprintf("%g/s, burst %g", l.Rate, l.Burst)
					tokens = fmt.Sprintf("%.1f", l.Tokens)
				}
				t.AppendRow(table.Row{oneLine(l.Key, 60), running, rate, tokens, count(l.Parked)})
			}
			if err := a.writeTable(t); err != nil {
				return err
			}
			if len(rows) == limit {
				fmt.Fprintf(a.Err, "there may be more: --after %q\n", rows[len(rows)-1].Key)
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "list so many at most")
	cmd.Flags().StringVar(&after, "after", "", "go on behind this key")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) limitSet(g *globals) *cobra.Command {
	var asJSON bool
	var by store.By
	var l store.Limit
	cmd := &cobra.Command{
		Use:   "set KEY",
		Short: "Limit the jobs of a key, or change their limit",
		Long: `Limit the jobs of a key from the next claim on. What runs goes on, and jobs that find no room wait at no cost in
attempts; others pass them. The limit is set as a whole: what is not said is not limited.`,
		Example: `  coppice limit set api.example.com --max 10
  coppice limit set mail --rate 5 --burst 20 --reason "their new terms"`,
		Args: operands("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			db, st, err := a.open(cmd.Context(), g)
			if err != nil {
				return err
			}
			defer db.close(cmd.Context())
			if err := st.SetLimit(cmd.Context(), args[0], l, by); err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(limitJSON{Key: args[0], MaxRunning: l.MaxRunning, Rate: l.Rate, Burst: l.Burst})
			}
			_, err = fmt.Fprintf(a.Out, "key %s limited\n", oneLine(args[0], 60))
			return err
		},
	}
	cmd.Flags().IntVar(&l.MaxRunning, "max", 0, "so many at a time; 0: any number")
	cmd.Flags().Float64Var(&l.Rate, "rate", 0, "start so many a second; 0: any number")
	cmd.Flags().Float64Var(&l.Burst, "burst", 0, "of the rate, so many at once after a rest; 0: one second's worth")
	byFlags(cmd, &by)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) limitDelete(g *globals) *cobra.Command {
	var asJSON bool
	var by store.By
	cmd := &cobra.Command{
		Use:     "delete KEY",
		Short:   "Lift the limit of a key",
		Long:    `Lift the limit of a key: jobs that wait for it are looked at again at once.`,
		Example: `  coppice limit delete api.example.com`,
		Args:    operands("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			db, st, err := a.open(cmd.Context(), g)
			if err != nil {
				return err
			}
			defer db.close(cmd.Context())
			changed, err := st.DeleteLimit(cmd.Context(), args[0], by)
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(struct {
					Key     string `json:"key"`
					Changed bool   `json:"changed"`
				}{args[0], changed})
			}
			done := "was not limited"
			if changed {
				done = "is limited no more"
			}
			_, err = fmt.Fprintf(a.Out, "key %s %s\n", oneLine(args[0], 60), done)
			return err
		},
	}
	byFlags(cmd, &by)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) queueLimit(g *globals) *cobra.Command {
	var asJSON, none bool
	var by store.By
	var most int
	cmd := &cobra.Command{
		Use:   "limit QUEUE",
		Short: "Limit how many jobs of a queue run at a time",
		Long: `Limit how many jobs of a queue may run at a time, across all workers, from the next claim on. What runs goes on.
While a queue is limited its workers claim nothing ahead.`,
		Example: `  coppice queue limit mail --max 20
  coppice queue limit mail --none`,
		Args: operands("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if none == (most != 0) || most < 0 {
				return usage(cmd, "say either --max N, above 0, or --none")
			}
			db, st, err := a.open(cmd.Context(), g)
			if err != nil {
				return err
			}
			defer db.close(cmd.Context())
			changed, err := st.LimitQueue(cmd.Context(), args[0], most, by)
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(struct {
					Queue      string `json:"queue"`
					MaxRunning int    `json:"max_running"` // 0: any number
					Changed    bool   `json:"changed"`     // false: it was so already
				}{args[0], most, changed})
			}
			said := "any number of jobs"
			if most > 0 {
				said = jobs(most) + " at a time"
			}
			if !changed {
				said += ", as before"
			}
			_, err = fmt.Fprintf(a.Out, "queue %s runs %s\n", oneLine(args[0], 60), said)
			return err
		},
	}
	cmd.Flags().IntVar(&most, "max", 0, "so many at a time")
	cmd.Flags().BoolVar(&none, "none", false, "lift the limit")
	byFlags(cmd, &by)
	jsonFlag(cmd, &asJSON)
	return cmd
}
