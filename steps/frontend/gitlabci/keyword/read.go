package keyword

import (
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// Read reads the definition of a configuration. The list is all that is wrong with it; the definition is what could be made of the rest.
func Read(c *config.Config) (*Definition, diag.List) {
	d := &Definition{}
	return d, nil
}
