package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/migrations"
)

// build is what is known about the making of this program.
type build struct {
	Version  string `json:"version"`            // of the module; "(devel)" for a build from a work tree
	Revision string `json:"revision,omitempty"` // of the repository
	Modified bool   `json:"modified,omitempty"` // the work tree had changes on top of it
	Time     string `json:"time,omitempty"`     // of the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Schema   int64  `json:"schema_version"` // the migration that this program needs
}

func (a *App) version() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Long: `Say which version of Coppice this is, from which revision and with which Go it was built, and which version
of the schema it needs. Name these in reports about problems.`,
		Example: `  coppice version
  coppice version --json`,
		Args: operands(),
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if asJSON {
				return a.writeJSON(b)
			}
			revision := b.Revision
			if b.Modified {
				revision += " (with changes)"
			}
			return a.writeFacts(
				fact{"coppice", b.Version},
				fact{"revision", revision},
				fact{"from", b.Time},
				fact{"go", b.Go + " " + b.Platform},
				fact{"schema", fmt.Sprintf("version %d", b.Schema)},
			)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func thisBuild() build {
	b := build{
		Version:  "(devel)",
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Schema:   migrations.Latest(),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
