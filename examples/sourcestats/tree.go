package sourcestats

import (
	"path/filepath"

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
// the order of their names and have their name as their key, which is how a finalizer knows them.
func Tree(root string, files int) (*tree.Node, Counts, error) {
	root, err := absolute(root)
	if err != nil {
		return nil, Counts{}, err
	}
	p := planter{root: root, left: newQuota(files)}
	node, err := p.folder(".")
	if err != nil {
		return nil, Counts{}, err
	}
	return node, p.counts, nil
}

type planter struct {
	root   string
	left   quota
	counts Counts
}

func (p *planter) folder(path string, options ...tree.Option) (*tree.Node, error) {
	entries, err := list(filepath.Join(p.root, path))
	if err != nil {
		return nil, err
	}
	p.counts.Folders++
	// An Add of nothing makes an empty folder a finalizer too.
	node := tree.New(FolderArgs{Path: filepath.ToSlash(path)}, options...).Add()
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
		node.Add(tree.New(FileArgs{Root: p.root, Path: filepath.ToSlash(below)}, key))
	}
	return node, nil
}
