// SPDX-License-Identifier: Apache-2.0

package routes

import "errors"

// Causes of an *ObjectError and of a *dataplane.ApplyError, for errors.Is.
var (
	// ErrNoInterface: an interface does not exist (yet).
	ErrNoInterface = errors.New("no such interface")
	// ErrInterfaceDown: an interface is not up (yet).
	ErrInterfaceDown = errors.New("interface is down")
	// ErrForeign: another process has a route to the same destination, a static neighbour entry
	// with another MAC, the same rule, or an interface with the name or, of a tunnel device, with the
	// parameters. It is left alone.
	ErrForeign = errors.New("exists and is not ours")
	// ErrCeded: another process had added an identical route or neighbour entry, and deleted it. Ours is
	// added once the interface goes down and up or returns, or the desired object changes.
	ErrCeded = errors.New("was deleted by the process that made it")
	// ErrContested: another endpoint has the address, one with a smaller key.
	ErrContested = errors.New("address is that of another endpoint")
	// ErrEndpoint: a field of the endpoint makes no sense.
	ErrEndpoint = errors.New("invalid endpoint")
	// ErrObject: a field of an object makes no sense.
	ErrObject = errors.New("invalid object")
	// ErrTunnel: a route leads through a tunnel whose other end is not known.
	ErrTunnel = errors.New("no tunnel")
)

// ObjectError is the fault of one object: why it could not be programmed. It is immutable.
type ObjectError struct {
	// Op is what was being done, as in "add route".
	Op string
	// Object that could not be added or, if it is unwanted, removed.
	Object Object
	// Detail is the kernel's message (extended ack), if it sent one. It is not part of
	// Error().
	Detail string
	// Err is the cause.
	Err error
	// absent is the name of the interface that does not exist or is down, if that is the cause.
	absent string
}

// Error returns "routes: op object: cause".
func (e *ObjectError) Error() string {
	return "routes: " + e.Op + " " + e.Object.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ObjectError) Unwrap() error { return e.Err }
