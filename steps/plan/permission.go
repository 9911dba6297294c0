package plan

import (
	"maps"
	"slices"
)

// The levels of permissions. Writing holds reading.
const (
	PermissionRead  = "read"
	PermissionWrite = "write"
)

// PermissionIDToken is the scope of identity tokens. In place of a level it can have an audience, the only one that tokens may be for then.
const PermissionIDToken = "id-token"

// Permits reports whether permissions hold a level of a scope.
func Permits(granted map[string]string, scope, level string) bool {
	have := granted[scope]
	return have != "" && (have == PermissionWrite || have == level)
}

// BeyondPermissions returns the first scope of which more is wanted than is granted, "" for none.
func BeyondPermissions(wanted, granted map[string]string) string {
	for _, scope := range slices.Sorted(maps.Keys(wanted)) {
		if !Permits(granted, scope, wanted[scope]) {
			return scope
		}
	}
	return ""
}
