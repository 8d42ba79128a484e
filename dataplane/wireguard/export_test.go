// SPDX-License-Identifier: Apache-2.0

package wireguard

import "time"

// SetRotationDelay sets Config.RotationDelay to less than New accepts, for tests that cannot wait.
func (d *Dataplane) SetRotationDelay(delay time.Duration) { d.cfg.RotationDelay = delay }
