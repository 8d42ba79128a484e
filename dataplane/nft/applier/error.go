// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// ErrUnknown reports that there is no desired state yet.
var ErrUnknown = errors.New("applier: no desired state yet")

// ErrClosed reports that the Applier was closed.
var ErrClosed = errors.New("applier: closed")

// Error reports that the kernel does not have the desired state.
type Error struct {
	// Op is the failed operation, as in "write chain sender".
	Op string
	// Detail is the kernel's message (extended ack), if there is one. It is not part of Error().
	Detail string
	// Err is the cause.
	Err error
}

// Error returns "nftables: op: cause".
func (e *Error) Error() string { return fmt.Sprintf("nftables: %s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Object names an object of the table.
type Object struct {
	// Kind is "chain" or "set", maps included.
	Kind string
	// Name is the name of the object.
	Name string
}

// String returns "kind name".
func (o Object) String() string { return o.Kind + " " + o.Name }

// ObjectError reports that the kernel refuses one object of the desired state, and that everything
// else is programmed. A chain that is held back drops every packet; a set that is held back is
// empty or missing, and the chains that look into it drop. It is the cause of an *Error, whose Detail
// has the kernel's message.
type ObjectError struct {
	// Object that is refused.
	Object Object
	// Chains that drop because of it, sorted by name.
	Chains []string
	// Err is the kernel's error number.
	Err error
}

// Error names the object and the chains that drop because of it.
func (e *ObjectError) Error() string {
	return fmt.Sprintf("%s is refused, and these chains drop: %v: %v", e.Object, e.Chains, e.Err)
}

// Unwrap returns the kernel's error number.
func (e *ObjectError) Unwrap() error { return e.Err }

// OwnedError reports that another process owns the table. Nothing was written. An *Error wraps it. All calls that write
// fail with it until that process ends.
type OwnedError struct {
	// Family and Table name the table.
	Family ruleset.Family
	Table  string
	// Port is the netlink port of the owner's socket. It is the owner's process id, if that is the
	// first such socket of the process.
	Port uint32
	// Process is the name of the process whose id is Port. It is empty if there is none.
	Process string
}

// Error names the table and its owner.
func (e *OwnedError) Error() string {
	owner := fmt.Sprintf("netlink port %d", e.Port)
	if e.Process != "" {
		owner = fmt.Sprintf("%s (%s)", e.Process, owner)
	}
	return fmt.Sprintf("applier: table %s %s belongs to another process: %s", e.Family, e.Table, owner)
}

// ErrUnsupported reports that this operating system has no nf_tables.
var ErrUnsupported = netlink.ErrUnsupported
