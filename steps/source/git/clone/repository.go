package clone

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
)

// initialize makes a repository without anything in it. WorkTree is the folder of the files, from the repository, where that is not the one it is in.
func (c *Clone) initialize(workTree string) error {
	for _, folder := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(c.gitDir, filepath.FromSlash(folder)), 0o777); err != nil {
			return err
		}
	}
	text := "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogallrefupdates = true\n"
	switch runtime.GOOS {
	case "windows":
		text += "\tfilemode = false\n\tsymlinks = false\n\tignorecase = true\n"
	case "darwin":
		text += "\tfilemode = true\n\tignorecase = true\n\tprecomposeunicode = true\n"
	default:
		text += "\tfilemode = true\n"
	}
	if workTree != "" {
		text += "\tworktree = " + quote(workTree) + "\n"
	}
	if err := c.write("config", text+c.options.Config); err != nil {
		return err
	}
	branch := "refs/heads/" + c.options.Branch
	if !validRef(branch) {
		branch = "refs/heads/main"
	}
	if err := c.write("HEAD", "ref: "+branch+"\n"); err != nil {
		return err
	}
	if c.linked != "" {
		return os.WriteFile(filepath.Join(c.options.Folder, ".git"), []byte("gitdir: "+c.linked+"\n"), 0o666)
	}
	return nil
}

// write writes a file of the repository.
func (c *Clone) write(name, text string) error {
	return os.WriteFile(filepath.Join(c.gitDir, name), []byte(text), 0o666)
}

// writeRefs writes all refs to one file: their names are a server's, and as those of files some would clash.
func (c *Clone) writeRefs() error {
	if len(c.refs) == 0 {
		return nil
	}
	var text bytes.Buffer
	text.WriteString("# pack-refs with: sorted \n")
	for _, name := range slices.Sorted(maps.Keys(c.refs)) {
		fmt.Fprintf(&text, "%s %s\n", c.refs[name], name)
	}
	return c.write("packed-refs", text.String())
}

// writeShallow says which commits are here without their history.
func (c *Clone) writeShallow() error {
	if len(c.shallow) == 0 {
		return remove(filepath.Join(c.gitDir, "shallow"))
	}
	hashes := slices.Collect(maps.Keys(c.shallow))
	plumbing.HashesSort(hashes)
	var text bytes.Buffer
	for _, h := range hashes {
		fmt.Fprintf(&text, "%s\n", h)
	}
	return c.write("shallow", text.String())
}
