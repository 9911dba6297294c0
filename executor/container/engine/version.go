package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// newest is the version of the API, after "1.", that is spoken at most. It is also the least that Docker 29 understands.
	newest = 44
	// oldest is the version that is spoken at least, Docker 17.12's. Before it an engine would run commands in another folder than
	// it is told, and say nothing.
	oldest = 35
	// pingTime is how long an engine may take to say which version it speaks.
	pingTime = 30 * time.Second
)

// Version says what an engine is.
type Version struct {
	Os   string // "linux", of its containers
	Arch string // "amd64"
	// Components are the programs that it is made of: "Engine" of Docker, "Podman Engine".
	Components []struct{ Name string }
}

// Docker reports whether it is Docker's engine, not another with the same API.
func (v Version) Docker() bool {
	return slices.ContainsFunc(v.Components, func(c struct{ Name string }) bool { return c.Name == "Engine" })
}

// Version returns what the engine is.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var found Version
	err := c.get(ctx, "/version", nil, &found)
	return found, err
}

// Info says what an engine's machine has, and which limits it enforces.
type Info struct {
	NCPU int
	// DockerRootDir is the folder on its machine where it keeps everything.
	DockerRootDir string
	MemoryLimit   bool
	PidsLimit     bool
	CPUCfsQuota   bool
	CPUSet        bool
	// OomKillDisable is that processes can be kept from being killed when memory runs out. Version 2 of control groups cannot.
	OomKillDisable bool
	// Runtimes are the OCI runtimes that containers can be run with, by their names. Podman names those of its configuration only.
	Runtimes map[string]struct{}
}

// Info returns what the engine's machine has.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var found Info
	err := c.get(ctx, "/info", nil, &found)
	return found, err
}

// Ping asks the engine whether it lives, and agrees with it on the version of the API.
func (c *Client) Ping(ctx context.Context) error {
	c.agreeing.Lock()
	defer c.agreeing.Unlock()
	return c.agree(ctx)
}

// agreed is the version that is spoken, as paths begin with it.
func (c *Client) agreed(ctx context.Context) (string, error) {
	c.agreeing.Lock()
	defer c.agreeing.Unlock()
	if c.version == "" {
		if err := c.agree(ctx); err != nil {
			return "", err
		}
	}
	return c.version, nil
}

// agree finds out which version is spoken: the lesser of the newest ones here and there.
func (c *Client) agree(ctx context.Context) error {
	ctx, cancel := within(ctx, pingTime)
	defer cancel()
	r, err := c.build(ctx, &request{method: http.MethodGet, path: "/_ping"}, "")
	if err != nil {
		return err
	}
	response, err := c.send(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxRefusal)) // so that the connection can be used again
	theirs := response.Header.Get("Api-Version")
	if theirs == "" {
		return errors.New("what answers is not a container engine: it does not say which version of the API it speaks")
	}
	number, known := strings.CutPrefix(theirs, "1.")
	minor, err := strconv.ParseUint(number, 10, 16)
	if !known || err != nil || minor < oldest {
		return fmt.Errorf("the engine speaks version %q of the API, not 1.%d or a later one of the same kind; use another engine", theirs, oldest)
	}
	c.version = fmt.Sprintf("/v1.%d", min(minor, newest))
	return nil
}
