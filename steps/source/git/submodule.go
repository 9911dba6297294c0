package git

import (
	"bytes"
	"context"
	"fmt"
	"path"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/config"

	"github.com/rungci/rung/steps/source"
)

// modulesFile says where a repository's submodules are.
const modulesFile = ".gitmodules"

// Limits of submodules.
const (
	maxSubmoduleDepth = 5   // submodules of submodules
	maxSubmodules     = 100 // of one repository
)

// submodule is a commit of another repository that is in a tree.
type submodule struct {
	path   string // in its repository
	commit plumbing.Hash
}

// submodules fetches the submodules of what x packed. They have to be on the same host, because neither the user's rules nor
// the credentials are about any other.
func (f *Fetcher) submodules(ctx context.Context, at *source.Location, a *address, x *export, depth int) error {
	if len(x.submodules) == 0 {
		return nil
	}
	refuse := func(path, why string) error {
		return &source.DeniedError{What: place(at), Why: fmt.Sprintf("its submodule %s %s", path, why)}
	}
	if depth == maxSubmoduleDepth {
		return refuse(x.submodules[0].path, fmt.Sprintf("is more than %d submodules deep", maxSubmoduleDepth))
	}
	if len(x.submodules) > maxSubmodules {
		return refuse(x.submodules[maxSubmodules].path, fmt.Sprintf("is one of more than %d", maxSubmodules))
	}
	urls, err := parseModules(x.modules)
	if err != nil {
		return &source.DeniedError{What: place(at), Why: modulesFile + " cannot be read"}
	}
	for _, s := range x.submodules {
		url := urls[s.path]
		if url == "" {
			return refuse(s.path, "has no address in "+modulesFile)
		}
		sub, err := a.join(url)
		if err != nil {
			return refuse(s.path, "has an address that cannot be used: "+err.Error())
		}
		if !a.sameHost(sub) {
			return refuse(s.path, fmt.Sprintf("is on another host (%s); only submodules on the same host are fetched", clean(sub.url())))
		}
		if sub.user == "" {
			sub.user, sub.password = a.user, a.password
		}
		there := &source.Location{Kind: at.Kind, Name: sub.url(), URL: sub.url(), Rev: s.commit.String(), Access: at.Access}
		inner := &export{to: x.to, prefix: path.Join(x.prefix, s.path)}
		if err := f.fetch(ctx, there, sub, s.commit.String(), inner, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// parseModules returns the addresses in a .gitmodules file by the paths of the submodules.
func parseModules(text []byte) (map[string]string, error) {
	c := config.New()
	if err := config.NewDecoder(bytes.NewReader(text)).Decode(c); err != nil {
		return nil, err
	}
	urls := map[string]string{}
	for _, s := range c.Section("submodule").Subsections {
		urls[s.Option("path")] = s.Option("url")
	}
	return urls, nil
}
