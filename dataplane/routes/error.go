// SPDX-License-Identifier: Apache-2.0

package routes

import "errors"

// Causes of an *ObjectError and of a *dataplane.ApplyError, for errors.Is.
var (
	// ErrNoInterface: an interface does not exist (yet).
	ErrNoInterface = errors.New("no such interface")
	// ErrInterfaceDown: an interface is not up (yet).
	ErrInterfaceDown = errors.New("interface is down")
	// ErrForeign: another process has made an object in the place of the desired one. That object
	// stays, and the desired one is not added. The other process's object is one of these:
	//
	//   - a route to the same destination,
	//   - a static neighbour entry with another MAC,
	//   - the same rule,
	//   - an interface that has the name of a desired device, or a tunnel device that has the
	//     parameters of a desired device.
	ErrForeign = errors.New("exists and is not ours")
	// ErrCeded: another process had added a route or neighbour entry that is identical to the
	// desired one, and has deleted it. The desired one is not added now. It is added when the
	// interface goes down and up or is recreated, or when the desired object changes.
	ErrCeded = errors.New("was deleted by the process that made it")
	// ErrContested: another endpoint, with a smaller key, has the same address.
	ErrContested = errors.New("address belongs to another endpoint")
	// ErrEndpoint: a field of the endpoint is invalid.
	ErrEndpoint = errors.New("invalid endpoint")
	// ErrObject: a field of an object is invalid.
	ErrObject = errors.New("invalid object")
	// ErrTunnel: a route leads through a tunnel whose other end is not known.
	ErrTunnel = errors.New("no tunnel")
)

// ObjectError says why one object could not be programmed. It is immutable.
type ObjectError struct {
	// Op is the operation that failed, as in "add route".
	Op string
	// Object is the desired object that could not be added, or the unwanted one that could not be
	// removed.
	Object Object
	// Detail is the kernel's message (extended ack), if it sent one. The text of Error does not
	// contain it.
	Detail string
	// Err is the cause.
	Err error
	// absent is the name of an interface that does not exist or is down, if the interface is the
	// cause.
	absent string
}

// Error returns "routes: op object: cause".
func (e *ObjectError) Error() string {
	return "routes: " + e.Op + " " + e.Object.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ObjectError) Unwrap() error { return e.Err }
