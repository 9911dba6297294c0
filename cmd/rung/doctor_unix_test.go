//go:build unix

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestDoctorScripts runs the stories of testdata/doctor, which have the plugin of these tests.
func TestDoctorScripts(t *testing.T) {
	t.Parallel()
	runStories(t, testscript.Params{Dir: "testdata/doctor", Setup: foldersIn}, nil)
}
