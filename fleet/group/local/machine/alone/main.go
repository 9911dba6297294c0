// The program alone is the parts of machines and nothing else, for tests whose own program needs libraries.
package main

import (
	"fmt"
	"os"

	_ "github.com/rungci/rung/fleet/group/local/machine" // runs the parts, before main
)

func main() {
	fmt.Fprintln(os.Stderr, "this is started as a part of a machine")
	os.Exit(1)
}
