package account_test

import (
	"os/user"
	"testing"

	"github.com/rungci/rung/internal/account"
)

func TestAUserIsFoundByNameAndNumber(t *testing.T) {
	self, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	for _, name := range []string{self.Username, self.Uid} {
		if found, err := account.Find(name); err != nil || found.Uid != self.Uid {
			t.Errorf("%q is %v, %v", name, found, err)
		}
	}
	if found, err := account.Find("rung-no-such-user"); err == nil {
		t.Errorf("there is %v", found)
	}
}
