package github

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/event"
)

// wantedNode is the version in the context of a JavaScript action: "node20".
var wantedNode = lazyregexp.New(`^node([1-9][0-9])$`)

// nodeMajor is the version in a file of Node's headers.
var nodeMajor = lazyregexp.New(`(?m)^#define NODE_MAJOR_VERSION ([0-9]+)\s*$`)

// maxNodeHeader bounds the file of Node's headers that holds its version, in bytes.
const maxNodeHeader = 64 << 10

// checkNode says once when an action will run on a Node that is older than it asks for. The version is in a file that comes with
// Node; where that is missing nothing is said, as starting node only to ask would take longer than most of what an action does.
func (s *Session) checkNode() {
	using := wantedNode().FindStringSubmatch(field(s.process.Context, "using").Text())
	if using == nil {
		return
	}
	wanted, _ := strconv.Atoi(using[1]) // two digits
	node := lookPath("node", s.process.Getenv("PATH"))
	if node == "" {
		return // the engine says so
	}
	if found := s.job.nodeVersion(node); found != 0 && found < wanted && s.job.first("node", using[0]) {
		s.process.Emit(event.Warning{Message: fmt.Sprintf("the action asks for Node %d, and %s is Node %d: it runs on that", wanted, node, found)})
	}
}

// nodeVersion returns the major version of a node, 0 if it is unknown. It looks once in a run.
func (j *job) nodeVersion(node string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if version, known := j.nodes[node]; known {
		return version
	}
	version := 0
	if real, err := filepath.EvalSymlinks(node); err == nil {
		root := filepath.Dir(filepath.Dir(real))
		if runtime.GOOS == "windows" {
			root = filepath.Dir(real)
		}
		header, err := readRegular(filepath.Join(root, "include", "node", "node_version.h"), maxNodeHeader)
		if found := nodeMajor().FindSubmatch(header); err == nil && found != nil {
			version, _ = strconv.Atoi(string(found[1]))
		}
	}
	j.nodes[node] = version
	return version
}

// lookPath returns the program that a PATH leads to, "" for none.
func lookPath(name, path string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	for dir := range strings.SplitSeq(path, string(os.PathListSeparator)) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); dir != "" && err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
			return file
		}
	}
	return ""
}
