package pglocal

import (
	"context"
	"io/fs"
	"path/filepath"
	"strconv"
)

// State says whether a cluster's server runs.
type State string

// The states of a cluster.
const (
	Absent   State = "no database" // there is no cluster
	Stopped  State = "stopped"
	Starting State = "starting" // or stopping: the server runs and refuses connections
	Running  State = "running"
)

// Status is what is known of a cluster from outside.
type Status struct {
	State State  // whether the server runs
	Info         // PID is zero unless a server runs; Version is then "15.18", else "15"
	URL   string // of the database coppice; empty unless State is Running
	Size  int64  // of the data folder on disk, in bytes
	Kept  bool   // the server stays up until Stop

	Users []User // the programs that use the server, by ascending process id
}

// Path returns the folder of the cluster that o means, whether or not it exists.
func Path(ctx context.Context, o Options) (string, error) {
	t, err := choose(ctx, o)
	return string(t.folder), err
}

// GetStatus looks at the cluster that o means. It starts nothing and waits for no
// other program.
func GetStatus(ctx context.Context, o Options) (Status, error) {
	t, err := choose(ctx, o)
	if err != nil {
		return Status{}, err
	}
	f := t.folder
	st := Status{State: Absent, Info: Info{Folder: string(f), Data: f.data(), Log: f.log()}}
	major := f.major()
	if major == 0 {
		return st, nil
	}
	st.State = Stopped
	st.Version = strconv.Itoa(major)
	st.Size = size(f.data())
	st.Kept = f.kept()
	if st.Users, err = f.inUse(); err != nil {
		return Status{}, err
	}
	p := f.running()
	if p == nil {
		return st, nil
	}
	st.State = Starting
	version := st.Version
	conn, answered, err := f.connect(ctx, p.addr, superuser)
	if err == nil {
		_ = conn.Close(ctx) // the answer is what it was for
		st.State = Running
		version = answered
		if st.URL, err = f.connURL(p.addr, superuser); err != nil {
			return Status{}, err
		}
	}
	p.version = version
	st.Info = f.info(p)
	return st, nil
}

// size adds up the files below a folder. Files that go away meanwhile do not count.
func size(folder string) int64 {
	var total int64
	_ = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}
