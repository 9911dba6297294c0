package group

// State is what an instance is doing.
type State string

// The states of an instance. Creating and Deleting end by themselves; Timeout is one that has not become what it should in the time that the group allows.
const (
	StateCreating   State = "creating"
	StateRunning    State = "running"
	StateSuspending State = "suspending"
	StateSuspended  State = "suspended"
	StateDeleting   State = "deleting"
	StateDeleted    State = "deleted"
	StateTimeout    State = "timeout"
	// StateFailed is an instance that will never run, or never again, and has to be deleted. Instance.Reason says why.
	StateFailed State = "failed"
)

// after has the states that can come after each.
var after = map[State][]State{
	StateCreating:   {StateRunning, StateSuspending, StateSuspended, StateFailed, StateTimeout, StateDeleting, StateDeleted},
	StateRunning:    {StateSuspending, StateSuspended, StateFailed, StateTimeout, StateDeleting, StateDeleted},
	StateSuspending: {StateSuspended, StateRunning, StateFailed, StateTimeout, StateDeleting, StateDeleted},
	StateSuspended:  {StateCreating, StateRunning, StateFailed, StateTimeout, StateDeleting, StateDeleted}, // some clouds boot it again
	StateTimeout:    {StateFailed, StateDeleting, StateDeleted},
	StateFailed:     {StateDeleting, StateDeleted},
	StateDeleting:   {StateDeleted},
	StateDeleted:    {},
}

// ends reports whether only the end of an instance can come after the state.
func (s State) ends() bool { return !s.CanBecome(StateRunning) }

// Known reports whether the contract has the state.
func (s State) Known() bool {
	_, ok := after[s]
	return ok
}

// Exists reports whether an instance in this state is there, and costs what it costs.
func (s State) Exists() bool { return s != StateDeleted }

// CanBecome reports whether next can be reported after s: the same, or one further on.
func (s State) CanBecome(next State) bool {
	if s == next {
		return true
	}
	for _, one := range after[s] {
		if one == next {
			return true
		}
	}
	return false
}
