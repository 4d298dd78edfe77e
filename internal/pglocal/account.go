package pglocal

// account is the operating system's account that the server runs as. Nil means the
// program's own.
type account struct {
	name     string
	uid, gid uint32
}
