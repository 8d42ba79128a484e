// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package conntrack

import "context"

// WatchEnded returns ErrUnsupported.
func WatchEnded(context.Context, WatchConfig) error { return ErrUnsupported }
