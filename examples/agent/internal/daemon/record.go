// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"io"

	"github.com/wayleave/wayleave/examples/agent/internal/recording"
)

// recordingState is the state of the recording of the agent's input.
type recordingState struct {
	file string // empty if nothing is to be recorded
	err  error  // why it has ended
}

// record begins a recording for the next pipeline, if recording is enabled. It returns a function
// that ends the recording. If it fails, it reports the failure, and the agent continues without a
// recording.
func (d *Daemon) record() (w io.Writer, done func()) {
	path, limit := d.local.RecordFile, int64(d.local.RecordLimit)<<20
	if path == "" {
		return nil, func() {}
	}
	d.mu.Lock()
	d.recording = recordingState{file: path}
	d.mu.Unlock()
	file, err := recording.Create(path, limit)
	if err != nil {
		d.recordFailed(err)
		return nil, func() {}
	}
	return file, func() {
		if err := file.Close(); err != nil {
			d.recordFailed(err)
		}
	}
}

// recordFailed reports that the recording has failed.
func (d *Daemon) recordFailed(err error) {
	d.mu.Lock()
	d.recording.err = err
	d.mu.Unlock()
	d.logger.Error("the recording has ended; the agent continues", "err", err)
	d.events.publish("recording", "", "has ended: "+err.Error())
}

func (d *Daemon) recordingNow() recordingState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recording
}

// recordingNote returns a note if the recording has failed. The note appears in the health of the
// agent, and does not make the agent unhealthy.
func (d *Daemon) recordingNote() string {
	if err := d.recordingNow().err; err != nil {
		return fmt.Sprintf("has ended: %v", err)
	}
	return ""
}
