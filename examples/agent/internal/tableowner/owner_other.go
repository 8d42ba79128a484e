// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package tableowner

import "errors"

// Find returns the owner of a table of the family inet.
func Find(string) (Owner, error) { return Owner{}, errors.ErrUnsupported }
