// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
)

// ErrUnknown says that a desired state was never given, so that there is nothing to bring the kernel to.
var ErrUnknown = errors.New("applier: no desired state yet")

// ErrClosed says that the Applier was closed.
var ErrClosed = errors.New("applier: closed")

// Object names an object of the table. It is a plain value.
type Object struct {
	// Kind is "chain" or "set", maps included.
	Kind string
	// Name of it.
	Name string
}

// String returns "kind name".
func (o Object) String() string { return o.Kind + " " + o.Name }

// ObjectError says that the kernel refuses one object of the desired state, and that everything else is programmed. A chain
// that is held back drops what comes to it; a set that is held back is empty or missing, and the chains that look into
// it drop. It is the cause of a *dataplane.ApplyError, whose Detail has the kernel's words. It is a plain value.
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

// FeatureError says that the kernel lacks what the desired state needs. Nothing was written. It is a plain value.
type FeatureError struct {
	// Feature in words.
	Feature string
	// Kernel is the first version that has it, as in "5.16".
	Kernel string
	// Object that needs it.
	Object Object
	// Err is what the kernel said.
	Err error
}

// Error names the feature, the object and the version.
func (e *FeatureError) Error() string {
	return fmt.Sprintf("applier: %s needs %s, which came with Linux %s: %v", e.Object, e.Feature, e.Kernel, e.Err)
}

// Unwrap returns what the kernel said.
func (e *FeatureError) Unwrap() error { return e.Err }

// ErrUnsupported says that there is no nf_tables on this operating system.
var ErrUnsupported = nfnl.ErrUnsupported
