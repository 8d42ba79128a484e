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

// Error reports that the desired state could not be programmed.
type Error struct {
	// Op is the operation that failed, as in "write chain sender".
	Op string
	// Detail is the kernel's message (extended ack), if there is one. Error() does not contain it.
	Detail string
	// Err is the cause.
	Err error
}

// Error returns "nftables: op: cause".
func (e *Error) Error() string { return fmt.Sprintf("nftables: %s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Object identifies a chain or set of the table.
type Object struct {
	// Kind is "chain" or "set". A map is a set, too.
	Kind string
	// Name is the name of the object.
	Name string
}

// String returns "kind name".
func (o Object) String() string { return o.Kind + " " + o.Name }

// ObjectError reports that the kernel refuses one object of the desired state. Everything else is
// programmed. In place of a refused chain, there is a chain that drops every packet. A refused set
// is left out, and the chains that reference it are replaced by chains that drop every packet. An
// ObjectError is the cause of an *Error, whose Detail has the kernel's message.
type ObjectError struct {
	// Object is the refused object.
	Object Object
	// Chains are the chains that drop every packet because the object is refused, sorted by name.
	Chains []string
	// Err is the kernel's error number.
	Err error
}

// Error returns a text with the object, its Chains and the reason.
func (e *ObjectError) Error() string {
	return fmt.Sprintf("%s is refused, so these chains drop all packets: %v: %v", e.Object, e.Chains, e.Err)
}

// Unwrap returns the kernel's error number.
func (e *ObjectError) Unwrap() error { return e.Err }

// OwnedError reports that another process owns the table. Nothing was written. Until that process
// ends or closes its socket, all calls that write fail with this error. An *Error wraps it.
type OwnedError struct {
	// Family and Table identify the table.
	Family ruleset.Family
	Table  string
	// Port is the netlink port of the owner's socket. For the first such socket of a process, the
	// port is the process id.
	Port uint32
	// Process is the name of the process that has Port as its process id. It is empty if there is
	// no such process.
	Process string
}

// Error returns a text with the table and its owner.
func (e *OwnedError) Error() string {
	owner := fmt.Sprintf("netlink port %d", e.Port)
	if e.Process != "" {
		owner = fmt.Sprintf("%s (%s)", e.Process, owner)
	}
	return fmt.Sprintf("applier: table %s %s belongs to another process: %s", e.Family, e.Table, owner)
}

// ErrUnsupported reports that this operating system has no nf_tables.
var ErrUnsupported = netlink.ErrUnsupported
