package sourcestats

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// FileArgs is the job of one file.
type FileArgs struct {
	Root string `json:"root"` // absolute
	Path string `json:"path"` // from the root, with slashes
}

// Kind names the jobs of files.
func (FileArgs) Kind() string { return "sourcestats.file" }

// FolderArgs is the finalizer of one folder. It needs no root, since it reads nothing but the results of its
// children.
type FolderArgs struct {
	Path string `json:"path"` // from the root, with slashes; "." for the root
}

// Kind names the finalizers of folders.
func (FolderArgs) Kind() string { return "sourcestats.folder" }

// Counts says how large a tree is.
type Counts struct {
	Files   int // leaves
	Folders int // finalizers, the root included
}

// Tree describes the folder at root as a tree of jobs, limited to so many files as in [Walk]. Children stand in
// the order of their names and have their name as their key, which is how a finalizer knows them. The options are
// those of every job.
func Tree(root string, files int, options ...tree.Option) (*tree.Node, Counts, error) {
	root, err := absolute(root)
	if err != nil {
		return nil, Counts{}, err
	}
	p := planter{root: root, left: newQuota(files), options: options}
	node, err := p.folder(".", tree.Meta(metaPath, root), tree.Meta(metaFiles, strconv.Itoa(max(files, 0))))
	if err != nil {
		return nil, Counts{}, err
	}
	return node, p.counts, nil
}

// What a root's metadata says of where the tree came from, for [Resume].
const (
	metaPath  = "path"
	metaFiles = "files"
)

// origin returns the folder and the limit that a tree was made with. It fails for a job that [Tree] did not make.
func origin(root *store.JobRow) (path string, files int, err error) {
	var meta map[string]string
	_ = json.Unmarshal(root.Meta, &meta) // other people's jobs may have anything there
	files, err = strconv.Atoi(meta[metaFiles])
	if root.Kind != (FolderArgs{}).Kind() || root.ParentID != 0 || meta[metaPath] == "" || err != nil {
		return "", 0, fmt.Errorf("job %d is not the root of a tree that counts a folder", root.ID)
	}
	return meta[metaPath], files, nil
}

type planter struct {
	root    string
	left    quota
	options []tree.Option
	counts  Counts
}

func (p *planter) folder(path string, own ...tree.Option) (*tree.Node, error) {
	entries, err := list(filepath.Join(p.root, path))
	if err != nil {
		return nil, err
	}
	p.counts.Folders++
	// An Add of nothing makes an empty folder a finalizer too.
	node := tree.New(FolderArgs{Path: filepath.ToSlash(path)}, p.with(own...)...).Add()
	for _, e := range entries {
		if p.left.spent() {
			break
		}
		below, key := filepath.Join(path, e.Name()), tree.Key(e.Name())
		if e.IsDir() {
			child, err := p.folder(below, key)
			if err != nil {
				return nil, err
			}
			node.Add(child)
			continue
		}
		p.left.take()
		p.counts.Files++
		node.Add(tree.New(FileArgs{Root: p.root, Path: filepath.ToSlash(below)}, p.with(key)...))
	}
	return node, nil
}

// with adds a job's own options to everybody's.
func (p *planter) with(own ...tree.Option) []tree.Option { return slices.Concat(p.options, own) }
