// Which mark of a chart a pointer means.

/** Return the index of the place nearest to a pixel: by distance within reach, else by x alone; null of none. */
export function findNearest(places, { x, y }, reach = 24) {
  let best = null;
  let bestDistance = Infinity;
  places.forEach((place, index) => {
    const dx = Math.abs(place.x - x);
    const apart = Math.hypot(dx, place.y - y);
    const distance = apart <= reach ? apart : reach + dx;
    if (distance < bestDistance) {
      best = index;
      bestDistance = distance;
    }
  });
  return best;
}
