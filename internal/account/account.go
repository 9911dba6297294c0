// Package account finds users on this machine.
package account

import "os/user"

// Find is the user with a name, or else with a number.
func Find(name string) (*user.User, error) {
	found, err := user.Lookup(name)
	if err == nil {
		return found, nil
	}
	if found, byID := user.LookupId(name); byID == nil {
		return found, nil
	}
	return nil, err
}
