package paint

import "math"

// noise is seeded gradient noise: smooth, isotropic, without period in practice.
type noise uint64

func (n noise) hash(x, y int) uint64 {
	h := uint64(n) ^ uint64(int64(x))*0x9e3779b97f4a7c15 ^ uint64(int64(y))*0xc2b2ae3d27d4eb4f
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// unit is a random number in [0,1) that belongs to the cell (x, y).
func (n noise) unit(x, y int) float64 { return float64(n.hash(x, y)>>11) / (1 << 53) }

// gradients are 32 directions of equal length.
var gradients = func() (g [32][2]float64) {
	for i := range g {
		g[i][1], g[i][0] = math.Sincos(float64(i) * math.Pi / 16)
	}
	return g
}()

// at is noise in about −1..1, with features of size 1.
func (n noise) at(x, y float64) float64 {
	fx, fy := math.Floor(x), math.Floor(y)
	ix, iy := int(fx), int(fy)
	x, y = x-fx, y-fy
	u := x * x * x * (x*(x*6-15) + 10)
	v := y * y * y * (y*(y*6-15) + 10)
	g := &gradients[n.hash(ix, iy)&31]
	a := g[0]*x + g[1]*y
	g = &gradients[n.hash(ix+1, iy)&31]
	b := g[0]*(x-1) + g[1]*y
	g = &gradients[n.hash(ix, iy+1)&31]
	c := g[0]*x + g[1]*(y-1)
	g = &gradients[n.hash(ix+1, iy+1)&31]
	d := g[0]*(x-1) + g[1]*(y-1)
	a += (b - a) * u
	c += (d - c) * u
	return 1.5 * (a + (c-a)*v)
}

// fbm adds octaves of noise, each twice as fine and half as strong, scaled to
// about −1..1.
func (n noise) fbm(x, y float64, octaves int) float64 {
	sum, amp, total := 0.0, 1.0, 0.0
	for i := range octaves {
		sum += amp * (n+noise(i)*0x51ed27).at(x, y)
		total += amp
		amp /= 2
		x, y = x*2.03+17.7, y*2.03-9.2
	}
	return sum / total * 1.25
}

// ridged is fbm folded into crests, 0 (valley) to 1 (crest).
func (n noise) ridged(x, y float64, octaves int) float64 {
	sum, amp, total := 0.0, 1.0, 0.0
	for i := range octaves {
		v := 1 - math.Abs((n+noise(i)*0x2545f5).at(x, y))
		sum += amp * v * v
		total += amp
		amp /= 2
		x, y = x*2.07+5.1, y*2.07+11.3
	}
	return sum / total
}
