// SPDX-License-Identifier: Apache-2.0

package kubernetes

import "time"

// State is the state of one kind.
type State string

// The states of a kind.
const (
	// StateWaiting: the kind has not been listed. The Source is not in sync.
	StateWaiting State = "waiting"
	// StateSynced: the kind has been listed. Its changes arrive, unless Err is set.
	StateSynced State = "synced"
	// StateNotServed: the server does not have the kind, and there are no objects. The Source looks
	// for it again later. Exception: if the server no longer has a kind of Calico, but has not
	// deleted the objects of this kind, the Source keeps these objects. The state then stays
	// StateSynced, and Err is set.
	StateNotServed State = "not served"
	// StateOmitted: Config.Omit names the kind.
	StateOmitted State = "omitted"
)

// KindStatus is the status of one kind.
type KindStatus struct {
	// Kind is in the plural and has its API group, as in "networkpolicies.networking.k8s.io" or
	// "pods".
	Kind string
	// State of the kind.
	State State
	// Err is why the kind cannot be read now, for example missing rights. Meanwhile, the objects
	// that were read last stay applied. Err is nil if the kind can be read.
	Err error
	// Since is when Err last changed. It is zero if Err is nil.
	Since time.Time
	// Objects counts the objects that have been read and not deleted.
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
