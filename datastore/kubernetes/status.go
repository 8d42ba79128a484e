// SPDX-License-Identifier: Apache-2.0

package kubernetes

import "time"

// State is the state of one kind.
type State string

// The states of a kind.
const (
	// StateWaiting: it has not been listed. The Source is not in sync.
	StateWaiting State = "waiting"
	// StateSynced: it has been listed, and its changes arrive unless Err says otherwise.
	StateSynced State = "synced"
	// StateNotServed: the server has no such kind, so there are no objects. The Source asks again.
	StateNotServed State = "not served"
	// StateOmitted: Config.Omit names it.
	StateOmitted State = "omitted"
)

// KindStatus is the status of one kind.
type KindStatus struct {
	// Kind is plural and with its API group, as in "networkpolicies.networking.k8s.io", or "pods".
	Kind string
	// State of the kind.
	State State
	// Err is why the kind cannot be read now, for example because of missing rights. Until then its last
	// objects stay. Nil if it can be read.
	Err error
	// Since is when Err became what it is. Zero without an Err.
	Since time.Time
	// Objects counts the objects that the server has.
	Objects int
	// Revision is the resourceVersion up to which changes have been received.
	Revision string
}

// Status is the state of a Source.
type Status struct {
	// InSync means that the receiver has been sent all objects.
	InSync bool
	// Kinds has all kinds, in the order of Kinds.
	Kinds []KindStatus
	// Faulty counts the objects with problems.
	Faulty int
}
