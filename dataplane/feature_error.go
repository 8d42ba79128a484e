// SPDX-License-Identifier: Apache-2.0

package dataplane

import "strings"

// FeatureError reports a feature that the kernel lacks. A Dataplane does not write objects that
// need the feature: the errors of these objects wrap the FeatureError. If all objects can be
// written without the feature, the Dataplane logs the FeatureError as a warning instead.
type FeatureError struct {
	// Feature is the name of the feature, as in "flowtables" or "devices of kind ipip".
	Feature string
	// Since is the first version of Linux with the feature, as in "6.4".
	Since string
	// Module is the kernel module with the feature, as in "nft_flow_offload", or empty.
	Module string
	// Err is the kernel's error. It is nil if the version of the kernel alone shows that the
	// feature is missing.
	Err error
}

// Error returns "the kernel has no FEATURE (since Linux SINCE, module MODULE): cause".
func (e *FeatureError) Error() string {
	var b strings.Builder
	b.WriteString("the kernel has no ")
	b.WriteString(e.Feature)
	b.WriteString(" (since Linux ")
	b.WriteString(e.Since)
	if e.Module != "" {
		b.WriteString(", module ")
		b.WriteString(e.Module)
	}
	b.WriteByte(')')
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the kernel's error.
func (e *FeatureError) Unwrap() error { return e.Err }
