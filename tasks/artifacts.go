package tasks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/memblob"  // mem://
	"gocloud.dev/gcerrors"

	"github.com/makegood/makegood/internal/crash"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
)

// MaxArtifact is the largest artefact, in bytes.
const MaxArtifact = 64 << 20

// storeWithin bounds one call to the store, so that one that hangs does not keep an attempt.
const storeWithin = time.Minute

// Artifacts keeps what jobs deliver. Each attempt writes under a name of its own,
// job_id/token/n.ext, and only once; the completion names the winner's.
type Artifacts struct{ bucket *blob.Bucket }

// OpenArtifacts opens file://DIR (made if it does not exist) or mem://.
func OpenArtifacts(ctx context.Context, address string) (*Artifacts, error) {
	if dir, ok := strings.CutPrefix(address, "file://"); ok {
		if dir, _, _ = strings.Cut(dir, "?"); strings.HasPrefix(dir, ".") {
			dir = "./" + dir // a relative directory: fileblob takes the host "." for it
		}
		address = "file://" + (&url.URL{Path: dir}).EscapedPath() + "?create_dir=true&metadata=skip&no_tmp_dir=true"
		address = strings.Replace(address, "file://./", "file://", 1)
	}
	bucket, err := blob.OpenBucket(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("ARTIFACTS_URL: %w", err)
	}
	return &Artifacts{bucket}, nil
}

// Close lets go of the store.
func (a *Artifacts) Close() error { return a.bucket.Close() }

// Write stores one output. What is there already is never replaced: the same bytes again are
// the same artefact (the answer to the first write was lost), others are an error.
func (a *Artifacts) Write(ctx context.Context, jobID, token string, n int, out provider.Output) (ledger.Artifact, error) {
	if len(out.Data) > MaxArtifact {
		return ledger.Artifact{}, Permanent(fmt.Errorf("output %d has %d bytes; %d are allowed", n, len(out.Data), MaxArtifact))
	}
	named, err := honest(out)
	if err != nil {
		return ledger.Artifact{}, Permanent(fmt.Errorf("output %d: %w", n, err))
	}
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	key := fmt.Sprintf("%s/%s/%d%s", jobID, token, n, extensions[named])
	crash.Here(crash.ArtifactBefore)
	err = a.bucket.WriteAll(ctx, key, out.Data, &blob.WriterOptions{ContentType: out.ContentType, IfNotExist: true})
	crash.Here(crash.ArtifactAfter)
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		var there []byte
		if there, err = a.bucket.ReadAll(ctx, key); err == nil && !bytes.Equal(there, out.Data) {
			return ledger.Artifact{}, Permanent(fmt.Errorf("output %d: %s is there already and never replaced", n, key))
		}
	}
	if err != nil {
		return ledger.Artifact{}, fmt.Errorf("store output %d: %w", n, err)
	}
	sum := sha256.Sum256(out.Data)
	return ledger.Artifact{Key: key, ContentType: out.ContentType, Bytes: int64(len(out.Data)), SHA256: hex.EncodeToString(sum[:])}, nil
}

// Read returns a stored artefact.
func (a *Artifacts) Read(ctx context.Context, key string) ([]byte, error) {
	return a.bucket.ReadAll(ctx, key)
}

// Remove deletes what an attempt wrote that did not win. What cannot be deleted stays: nothing
// names it, so it costs space and no more.
func (a *Artifacts) Remove(ctx context.Context, artifacts []ledger.Artifact) {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	for _, x := range artifacts {
		_ = a.bucket.Delete(ctx, x.Key)
	}
}

// honest holds the content type that a generator names against the bytes: what claims to be a
// picture, a sound or a film must be that one as far as bytes tell, and nothing else may be one
// in disguise.
func honest(out provider.Output) (named string, err error) {
	named, _, err = mime.ParseMediaType(out.ContentType)
	if err != nil {
		return "", fmt.Errorf("%q is not a content type", clip(out.ContentType, 80))
	}
	found, _, _ := mime.ParseMediaType(http.DetectContentType(out.Data))
	if found == named || (!sniffed[named] && !sniffed[found]) {
		return named, nil
	}
	return "", fmt.Errorf("claims to be %s and is %s", clip(named, 80), found)
}

// sniffed are the types whose bytes tell them for certain.
var sniffed = map[string]bool{"image/png": true, "image/jpeg": true, "image/webp": true, "image/gif": true, "application/pdf": true}

var extensions = map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif",
	"image/svg+xml": ".svg", "text/plain": ".txt", "text/markdown": ".md", "text/html": ".html", "application/json": ".json",
	"application/pdf": ".pdf", "video/mp4": ".mp4", "video/webm": ".webm", "audio/mpeg": ".mp3", "audio/wav": ".wav"}
