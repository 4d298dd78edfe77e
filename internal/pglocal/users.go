package pglocal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// User is a program that uses the server.
type User struct {
	PID     int    // of its process
	Program string // the base name of its executable
}

// use is the mark of one use of the server: a file that stays locked meanwhile.
type use struct {
	path string
	lock *fileLock
}

// enter marks the server as used. The caller holds the cluster's lock.
func (f folder) enter() (*use, error) {
	file, err := os.CreateTemp(f.users(), fmt.Sprintf("%d-*", os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("pglocal: mark the database as used: %w", err)
	}
	path := file.Name()
	// Whoever counts the users in this moment finds the file unlocked and takes it for
	// one left behind. That is right: the server is not in use yet, and only a holder
	// of the cluster's lock, as we are, removes such files.
	_, err = file.WriteString(program())
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("pglocal: mark the database as used: %w", err)
	}
	for {
		lock, err := tryLockFile(path)
		if errors.Is(err, errLocked) {
			continue // somebody is counting, and lets go of it at once
		}
		if err != nil {
			return nil, err
		}
		return &use{path: path, lock: lock}, nil
	}
}

// leave ends the use. The caller holds the cluster's lock if it can be had: without
// it the file may stay behind until the next count.
func (u *use) leave() {
	_ = os.Remove(u.path) // fails on windows while it is open; swept later
	u.lock.unlock()
}

// inUse returns the programs that use the server, by ascending process id.
func (f folder) inUse() ([]User, error) { return f.count(false) }

// sweep is inUse, and removes the files of programs that were killed. The caller
// holds the cluster's lock.
func (f folder) sweep() ([]User, error) { return f.count(true) }

func (f folder) count(sweep bool) ([]User, error) {
	entries, err := os.ReadDir(f.users())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pglocal: see who uses the database: %w", err)
	}
	var users []User
	for _, entry := range entries {
		before, _, _ := strings.Cut(entry.Name(), "-")
		pid, err := strconv.Atoi(before)
		if err != nil || !entry.Type().IsRegular() {
			continue // not ours
		}
		path := filepath.Join(f.users(), entry.Name())
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue // left just now
		}
		if err != nil {
			return nil, fmt.Errorf("pglocal: see who uses the database: %w", err)
		}
		err = lockHandle(file, shared) // shared, so that two who count do not count each other
		if err == nil {
			if sweep {
				_ = os.Remove(path) // tried again at the next count
			}
			unlockHandle(file)
		}
		_ = file.Close()
		if errors.Is(err, errLocked) {
			name, _ := os.ReadFile(path) // gone if it left just now; then it has no name
			users = append(users, User{PID: pid, Program: string(name)})
		} else if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(users, func(a, b User) int { return a.PID - b.PID })
	return users, nil
}

func program() string {
	path, err := os.Executable()
	if err != nil {
		return "a program"
	}
	return filepath.Base(path)
}
