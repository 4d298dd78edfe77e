package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/internal/pglocal"
)

// dbStatusJSON is what "db status --json" answers.
type dbStatusJSON struct {
	State   pglocal.State `json:"state"`
	Version string        `json:"version,omitempty"`
	PID     int           `json:"pid,omitempty"`
	URL     string        `json:"url,omitempty"`
	Folder  string        `json:"folder"`
	Log     string        `json:"log"`
	Bytes   int64         `json:"bytes"`
	Kept    bool          `json:"kept"`
	Users   []dbUserJSON  `json:"users"`
}

type dbUserJSON struct {
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

func (a *App) dbStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether the private server runs",
		Long: `Say whether the private PostgreSQL runs, where its data is and how large, and which programs use it. Nothing
is started.

  state   "no database" (never started), stopped, starting (or just stopping), running
  kept    whether it stays up when the last program that uses it ends ("coppice db start")
  url     how to connect while it runs
  users   programs that started it or found it running, with their process ids`,
		Example: `  coppice db status
  coppice db status --json`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := pglocal.GetStatus(cmd.Context(), a.local())
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(dbStatusOf(st))
			}
			return a.writeFacts(dbFacts(st)...)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func dbStatusOf(st pglocal.Status) dbStatusJSON {
	out := dbStatusJSON{
		State: st.State, Version: st.Version, PID: st.PID, URL: st.URL, Folder: st.Folder, Log: st.Log,
		Bytes: st.Size, Kept: st.Kept, Users: []dbUserJSON{},
	}
	for _, u := range st.Users {
		out.Users = append(out.Users, dbUserJSON{u.PID, u.Program})
	}
	return out
}

func dbFacts(st pglocal.Status) []fact {
	facts := []fact{{"state", string(st.State)}, {"folder", st.Folder}}
	if st.State == pglocal.Absent {
		return facts
	}
	pid := ""
	if st.PID > 0 {
		pid = fmt.Sprint(st.PID)
	}
	users := make([]string, len(st.Users))
	for i, u := range st.Users {
		users[i] = fmt.Sprintf("%s (%d)", u.Program, u.PID)
	}
	kept := "no"
	if st.Kept {
		kept = "yes"
	}
	return append(facts,
		fact{"version", st.Version},
		fact{"process", pid},
		fact{"url", st.URL},
		fact{"log", st.Log},
		fact{"size", size(st.Size)},
		fact{"kept", kept},
		fact{"users", strings.Join(users, "\n")},
	)
}
