// Command servers starts a Git server, a file server and a container registry on this machine, for trying where steps can come
// from. It serves DIR/repos (Git repositories, through git http-backend) and the folders of DIR/files, each as a zip, writes
// where they are as shell variables to DIR/servers.env, and ends on a signal.
//
//	go run ./e2e/servers DIR
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rungci/rung/steps/source/sourcetest"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: servers DIR")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func serve(dir string) error {
	for _, folder := range []string{"repos", "files"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return err
		}
	}
	repos, err := filepath.Abs(filepath.Join(dir, "repos"))
	if err != nil {
		return err
	}
	git, err := sourcetest.StartGitHTTP(sourcetest.GitOptions{Repos: repos})
	if err != nil {
		return err
	}
	defer git.Close()
	files := httptest.NewServer(zips(filepath.Join(dir, "files")))
	defer files.Close()
	registry := sourcetest.NewRegistry(false)
	defer registry.Close()

	env := fmt.Sprintf("GIT_SERVER=%s\nFILE_SERVER=%s\nREGISTRY=%s\n", git.URL, files.URL, registry.Host())
	temp := filepath.Join(dir, "servers.env.new") // whoever waits for the file finds all of it
	if err := os.WriteFile(temp, []byte(env), 0o644); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, "servers.env")); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	return nil
}

// zips serves every folder in dir as an archive: dir/steps as /steps.zip.
func zips(dir string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/"), ".zip")
		if !ok || !filepath.IsLocal(name) {
			http.NotFound(w, r)
			return
		}
		data, err := sourcetest.Zip(filepath.Join(dir, name), "")
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(data)
	})
}
