package main

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// plays is the variable that makes the test binary the plugin.
const plays = "RUNG_TEST_PLAYS"

func TestMain(m *testing.M) {
	for _, one := range os.Environ() { // what a person has configured
		if name, _, _ := strings.Cut(one, "="); strings.HasPrefix(name, "AWS_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	if os.Getenv(plays) != "" {
		main()
		return
	}
	code := m.Run()
	moto.stop()
	os.Exit(code)
}

// moto is the server that all tests share. Each has an account of its own there.
var moto server

type server struct {
	once  sync.Once
	url   *url.URL
	err   error
	stdin io.Closer
	ended chan struct{}
}

// program runs moto until its standard input ends, so that it ends with the test, however that ends.
const program = `
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
from moto.server import main
main(["-H", "127.0.0.1", "-p", "0"])
`

var address = regexp.MustCompile(`Running on (http://127\.0\.0\.1:\d+)`)

// motoURL is where moto answers. Without moto the test is skipped.
func motoURL(t *testing.T) *url.URL {
	t.Helper()
	python, err := filepath.Abs("../../build/moto/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(python), "moto_server")); err != nil {
		t.Skip("needs moto, which scripts/moto.sh installs: make plugins runs this test")
	}
	moto.once.Do(func() { moto.err = moto.start(python) })
	if moto.err != nil {
		t.Fatal("moto: ", moto.err)
	}
	return moto.url
}

func (s *server) start(python string) error {
	images, err := filepath.Abs("testdata/images.json") // in place of the hundreds that moto makes for each account
	if err != nil {
		return err
	}
	cmd := exec.Command(python, "-c", program)
	cmd.Env = append(os.Environ(), "MOTO_AMIS_PATH="+images, "PYTHONUNBUFFERED=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.stdin, s.ended = stdin, make(chan struct{})
	found := make(chan string, 1)
	go func() {
		defer close(s.ended)
		var all strings.Builder
		lines := bufio.NewScanner(said)
		for lines.Scan() {
			if where := address.FindStringSubmatch(lines.Text()); where != nil {
				found <- where[1]
				break
			}
			fmt.Fprintln(&all, lines.Text())
		}
		_, _ = io.Copy(io.Discard, said)
		err := cmd.Wait()
		select {
		case found <- fmt.Sprintf("it has ended: %v\n%s", err, all.String()):
		default:
		}
	}()
	const patience = 2 * time.Minute
	select {
	case where := <-found:
		s.url, err = url.Parse(where)
		return err
	case <-time.After(patience):
		return fmt.Errorf("it has not started within %s", patience)
	}
}

func (s *server) stop() {
	if s.stdin != nil {
		s.stdin.Close()
		<-s.ended
	}
}
