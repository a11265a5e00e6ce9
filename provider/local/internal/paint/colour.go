package paint

import "math"

// rgb is a colour in linear light, so that glows add and hazes mix as light does.
type rgb [3]float32

// hex reads 0xRRGGBB as sRGB.
func hex(v uint32) rgb {
	return rgb{decode(v >> 16 & 0xff), decode(v >> 8 & 0xff), decode(v & 0xff)}
}

func decode(v uint32) float32 {
	s := float64(v) / 255
	if s <= 0.04045 {
		return float32(s / 12.92)
	}
	return float32(math.Pow((s+0.055)/1.055, 2.4))
}

// encodeTable maps linear light in 4096 steps, spaced by square root so that
// the shadows keep their detail, to sRGB in 0..255.
var encodeTable = func() (t [4097]float32) {
	for i := range t {
		v := float64(i) / 4096
		v *= v
		if v <= 0.0031308 {
			t[i] = float32(255 * 12.92 * v)
		} else {
			t[i] = float32(255 * (1.055*math.Pow(v, 1/2.4) - 0.055))
		}
	}
	return t
}()

// encode returns sRGB as a fraction of a byte, to be rounded after dithering.
func encode(v float32) float32 {
	if v <= 0 {
		return 0
	}
	if v >= 1 {
		return 255
	}
	f := float32(math.Sqrt(float64(v))) * 4096
	i := int(f)
	return encodeTable[i] + (encodeTable[i+1]-encodeTable[i])*(f-float32(i))
}

func (c rgb) scale(k float64) rgb {
	f := float32(k)
	return rgb{c[0] * f, c[1] * f, c[2] * f}
}

func (c rgb) add(d rgb) rgb { return rgb{c[0] + d[0], c[1] + d[1], c[2] + d[2]} }

// lerp mixes light: t = 0 is c, t = 1 is d.
func (c rgb) lerp(d rgb, t float64) rgb {
	f := float32(t)
	return rgb{c[0] + (d[0]-c[0])*f, c[1] + (d[1]-c[1])*f, c[2] + (d[2]-c[2])*f}
}

// luminance is what the eye makes of c, 0 to 1.
func (c rgb) luminance() float64 {
	return float64(0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2])
}

// lab is a colour in Oklab, where the middle between two colours is the colour
// a painter would mix.
type lab [3]float64

func (c rgb) lab() lab {
	r, g, b := float64(c[0]), float64(c[1]), float64(c[2])
	l := math.Cbrt(0.4122214708*r + 0.5363325363*g + 0.0514459929*b)
	m := math.Cbrt(0.2119034982*r + 0.6806995451*g + 0.1073969566*b)
	s := math.Cbrt(0.0883024619*r + 0.2817188376*g + 0.6299787005*b)
	return lab{
		0.2104542553*l + 0.7936177850*m - 0.0040720468*s,
		1.9779984951*l - 2.4285922050*m + 0.4505937099*s,
		0.0259040371*l + 0.7827717662*m - 0.8086757660*s,
	}
}

func (c lab) rgb() rgb {
	l := c[0] + 0.3963377774*c[1] + 0.2158037573*c[2]
	m := c[0] - 0.1055613458*c[1] - 0.0638541728*c[2]
	s := c[0] - 0.0894841775*c[1] - 1.2914855480*c[2]
	l, m, s = l*l*l, m*m*m, s*s*s
	return rgb{
		float32(max(0, 4.0767416621*l-3.3077115913*m+0.2309699292*s)),
		float32(max(0, -1.2684380046*l+2.6097574011*m-0.3413193965*s)),
		float32(max(0, -0.0041960863*l-0.7034186147*m+1.7076147010*s)),
	}
}

// mix blends as pigments do (in Oklab). For single colours, not per pixel.
func (c rgb) mix(d rgb, t float64) rgb {
	a, b := c.lab(), d.lab()
	for i := range a {
		a[i] += (b[i] - a[i]) * t
	}
	return a.rgb()
}

// vary moves lightness by dl and chroma by the factor 1+dc.
func (c rgb) vary(dl, dc float64) rgb {
	a := c.lab()
	a[0] = clamp01(a[0] + dl)
	a[1] *= 1 + dc
	a[2] *= 1 + dc
	return a.rgb()
}

// ramp is a gradient, mixed once so that reading it per pixel is cheap.
type ramp []rgb

func newRamp(stops ...rgb) ramp {
	const steps = 512
	r := make(ramp, steps+1)
	for i := range r {
		t := float64(i) / steps * float64(len(stops)-1)
		k := min(int(t), len(stops)-2)
		r[i] = stops[k].mix(stops[k+1], t-float64(k))
	}
	return r
}

// at reads the gradient at t, clamped to 0..1.
func (r ramp) at(t float64) rgb {
	f := clamp01(t) * float64(len(r)-1)
	i := min(int(f), len(r)-2)
	return r[i].lerp(r[i+1], f-float64(i))
}

func clamp01(t float64) float64 { return min(max(t, 0), 1) }

// smooth is 0 below a, 1 above b and an S-curve between; a may exceed b.
func smooth(a, b, x float64) float64 {
	t := clamp01((x - a) / (b - a))
	return t * t * (3 - 2*t)
}
